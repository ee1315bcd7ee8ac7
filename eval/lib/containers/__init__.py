# SPDX-License-Identifier: GPL-2.0-only
"""What containers get of a VM: `cases` are what is asked, `run` asks in lab VMs, `page` tells."""

# SPDX-License-Identifier: GPL-2.0-only
"""What a guest knows of its vCPUs against the host's truth: a package for each of activity,
capacity and topology, each with a command line of its own. cli chooses among them.
"""

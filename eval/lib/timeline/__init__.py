# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of vCPUs over time: when each was on a core of the host, which task it ran, what the
scheduler found and did.

model is the data (plain JSON, from the lab or any other source), render draws it, record makes it
from a lab VM; cli ties them together.
"""

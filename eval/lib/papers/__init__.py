# SPDX-License-Identifier: GPL-2.0-only
"""The papers' experiments on a real kernel and a simulated host.

cli -> run -> (catalogue, model, loads) and, from what it wrote, page. A file for each paper has its
scenarios as data. What runs them is compare.
"""

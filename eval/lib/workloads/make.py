# SPDX-License-Identifier: GPL-2.0-only
"""make -j with gcc: short processes that follow each other, as in any build.

The tree is made from the numbers of its files, so it is the same each time. It lies in memory, and
includes no header of the system.
"""

from .workload import Metric, Size, Workload, parse_time, timed

FOLDER = "/dev/shm/vaware-make"
FUNCTIONS = 10  # of a file: its compiler computes about as long as it takes to start
MAKEFILE = """\
units := $(sort $(wildcard unit*.c))
program: main.o $(units:.c=.o)
\tgcc -o $@ $^
%.o: %.c
\tgcc -O1 -c -o $@ $<
"""
GENERATE = r"""
BEGIN {
    for (unit = 0; unit < units; unit++) {
        file = sprintf("unit%03d.c", unit)
        for (i = 0; i < functions; i++)
            printf "int u%d_%d(const int *a, int n)\n{\n\tint s = %d;\n\n" \
                "\tfor (int i = 0; i < n; i++)\n\t\ts = (s << %d) ^ a[i] * (s %% %d);\n" \
                "\treturn s;\n}\n", unit, i, unit + i, 1 + i % 7, 3 + unit >file
        close(file)
    }
}
"""


def workloads(size: Size) -> list[Workload]:
    """As many jobs as vCPUs, and some files for each core."""
    units = size.amount(2 * size.cores, 20 * size.cores)
    setup = (
        f"rm -rf {FOLDER} && mkdir {FOLDER} && cd {FOLDER} && echo '{MAKEFILE}' >Makefile && "
        f"awk -v units={units} -v functions={FUNCTIONS} '{GENERATE}' && "
        "echo 'int main(void) { return 0; }' >main.c && "
        # Once, so that a run does not wait for the files of the compiler.
        f"make -s -j{size.vcpus} program"
    )
    return [
        Workload(
            "make",
            f"cd {FOLDER} && rm -f program *.o && {timed(f'make -s -j{size.vcpus} program')}",
            (Metric("time", "s", "lower"),),
            parse_time,
            note=f"gcc -O1, files: {units}, jobs: {size.vcpus}",
            needs=("make", "gcc", "awk"),
            setup=setup,
            operations=lambda output: units,
        )
    ]

// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of a guest whose only input is its initramfs: pairs of processes pass a byte to and fro
 * beside a few that compute, for ever.
 */
#include <unistd.h>

#define PAIRS 4
#define HOGS 3

static void pass_on(int from, int to)
{
	char byte = 0;

	for (;;)
		if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
			_exit(1);
}

int main(void)
{
	volatile long turns = 0;

	for (int i = 0; i < PAIRS; i++) {
		int there[2], back[2];

		if (pipe(there) || pipe(back))
			return 1;
		if (!fork())
			pass_on(there[0], back[1]);
		if (!fork())
			pass_on(back[0], there[1]);
		if (write(there[1], "", 1) != 1)
			return 1;
	}
	for (int i = 0; i < HOGS; i++)
		if (!fork()) {
			for (;;)
				turns++;
		}
	for (;;)
		pause();
}

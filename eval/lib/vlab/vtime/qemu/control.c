/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lab's line to the emulator, a stream socket: one request a line.
 *
 *   run UNTIL INPUT   let the clock go, until UNTIL ns (-1: no end), once INPUT bytes have
 *                     arrived on the guest's serial ports
 *   hold              let it stand still
 *   shape SIZE        followed by SIZE bytes: a machine description (../host/describe.c)
 *   now               tell the time: "now NOW"
 *   pause NS          stop the whole VM for NS ns, as a migration does: "ok NOW"
 *   truth             what the host did to each vCPU
 *   record PATH       write the host's scheduling to PATH from now on; "record" alone: no more
 *
 * "run" is answered by "held NOW WHY WORD" once the clock stands still again: WHY is guest, until
 * or lab, WORD the byte that the guest has written. The others are answered by "ok ..." or "error
 * SENTENCE". All but hold and now are meant for a clock that stands
 * still.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "hw/core/cpu.h"
#include "loop.h"

#define LINE_MAX_BYTES 4096
#define SHAPE_MAX_BYTES (1 << 20)
#define WAIT_MS 20
#define INPUT_WAIT_US 200
#define INPUT_WAITS 5000 /* a second */

static struct {
	int fd;
	GString *in;
	bool running, said; /* the clock goes; the lab knows that it does not */
	const char *why;
	int word;
	int64_t until_ns;
	uint64_t input_bytes, input_wanted;
	FILE *record;
} line = { .fd = -1, .why = "lab", .said = true };

static const char *const WHY_NAMES[] = {
	[VT_WHY_IN] = "in",
	[VT_WHY_PREEMPTED] = "preempted",
	[VT_WHY_HALTED] = "halted",
	[VT_WHY_THROTTLED] = "throttled",
	[VT_WHY_UNTHROTTLED] = "unthrottled",
	[VT_WHY_WOKEN] = "woken",
	[VT_WHY_MIGRATED] = "migrated",
	[VT_WHY_POLL_START] = "poll-start",
	[VT_WHY_POLL_END] = "poll-end",
};

static void say(const char *format, ...) G_GNUC_PRINTF(1, 2);

static void say(const char *format, ...)
{
	g_autofree char *text = NULL;
	va_list args;
	size_t done = 0, size;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	size = strlen(text);
	while (done < size) {
		ssize_t n = send(line.fd, text + done, size - done, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR) {
			exit(0); /* the lab is gone */
		}
		done += MAX(n, 0);
	}
}

void vt_control_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	line.in = g_string_new("");
	if (strlen(path) >= sizeof(address.sun_path)) {
		error_report("The path in $VT_CONTROL is too long: %s", path);
		exit(1);
	}
	strcpy(address.sun_path, path);
	line.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (line.fd < 0 || connect(line.fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		error_report("Cannot connect to $VT_CONTROL (%s): %s", path, strerror(errno));
		exit(1);
	}
}

static void stop(const char *why, int word)
{
	line.running = false;
	line.said = false;
	line.why = why;
	line.word = word;
}

void vt_guest_word(const uint8_t *data, size_t size)
{
	if (size > 0 && line.running) {
		stop("guest", data[size - 1]);
		if (current_cpu) {
			vt_end_turn();
		}
	}
}

void vt_input(size_t size)
{
	line.input_bytes += size;
}

int64_t vt_control_until_ns(void)
{
	return line.until_ns < 0 ? INT64_MAX : line.until_ns;
}

bool vt_control_wants_hold(void)
{
	if (line.running && vt_now_ns() >= vt_control_until_ns()) {
		stop("until", 0);
	}
	return !line.running;
}

void vt_control_record(int64_t now_ns, int pcpu, int entity, VtWhy why)
{
	if (line.record) {
		fprintf(line.record, "%" PRId64 " %d %d %s\n", now_ns, pcpu, entity,
			WHY_NAMES[why]);
	}
}

/* ---------------------------------------------------------------- requests */

static void do_run(const char *args)
{
	int64_t until_ns = -1;
	uint64_t input = 0;

	if (sscanf(args, "%" SCNd64 " %" SCNu64, &until_ns, &input) != 2) {
		say("error 'run' takes a time and a number of bytes.\n");
		return;
	}
	line.until_ns = until_ns;
	line.input_wanted = input;
	line.running = true;
}

static void do_shape(const char *text)
{
	char error[256] = "";

	if (vt_host_shape(vt_host, text, vt_now_ns(), error, sizeof(error)) < 0) {
		say("error %s\n", error);
	} else {
		say("ok\n");
	}
}

static void do_truth(void)
{
	CPUState *cpu;
	int n = 0;

	CPU_FOREACH(cpu)
	{
		n++;
	}
	say("ok %d %" PRId64 "\n", n, vt_now_ns());
	for (int i = 0; i < n; i++) {
		VtTruth truth;

		vt_host_truth(vt_host, i, &truth);
		say("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", truth.ran_ns,
		    truth.stolen_ns, truth.slices, truth.halts, truth.polled_ns);
	}
}

static void do_record(const char *path)
{
	if (line.record) {
		fclose(line.record);
		line.record = NULL;
	}
	if (*path && !(line.record = fopen(path, "w"))) {
		say("error Cannot write %s: %s.\n", path, strerror(errno));
		return;
	}
	say("ok\n");
}

/* Take one request from what was received. Return false if it is not whole yet. */
static bool take_request(void)
{
	char *end = memchr(line.in->str, '\n', line.in->len);
	g_autofree char *request = NULL;
	size_t used, size;

	if (!end) {
		return false;
	}
	used = end + 1 - line.in->str;
	request = g_strndup(line.in->str, used - 1);
	if (sscanf(request, "shape %zu", &size) == 1) {
		g_autofree char *text = NULL;

		if (size > SHAPE_MAX_BYTES) {
			error_report("The lab sent a shape of %zu bytes.", size);
			exit(1);
		}
		if (line.in->len < used + size) {
			return false;
		}
		text = g_strndup(line.in->str + used, size);
		g_string_erase(line.in, 0, used + size);
		do_shape(text);
		return true;
	}
	g_string_erase(line.in, 0, used);
	if (g_str_has_prefix(request, "run ")) {
		do_run(request + 4);
	} else if (!strcmp(request, "hold")) {
		if (line.running) {
			stop("lab", 0);
		}
	} else if (!strcmp(request, "now")) {
		say("now %" PRId64 "\n", vt_now_ns());
	} else if (!strcmp(request, "truth")) {
		do_truth();
	} else if (g_str_has_prefix(request, "pause ")) {
		vt_pause(g_ascii_strtoll(request + 6, NULL, 10));
		say("ok %" PRId64 "\n", vt_now_ns());
	} else if (g_str_has_prefix(request, "record")) {
		do_record(g_strstrip(request + 6));
	} else {
		say("error There is no request '%s'.\n", request);
	}
	return true;
}

/* Receive what there is; wait for it if @wait. */
static void receive(bool wait)
{
	struct pollfd poll_fd = { .fd = line.fd, .events = POLLIN };
	char buffer[LINE_MAX_BYTES];
	ssize_t n;

	if (wait) {
		bql_unlock();
		poll(&poll_fd, 1, WAIT_MS);
		bql_lock();
	}
	n = recv(line.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
	if (n == 0) {
		exit(0); /* the lab is gone */
	}
	if (n > 0) {
		g_string_append_len(line.in, buffer, n);
	}
	while (take_request()) {
	}
}

void vt_control_poll(void)
{
	receive(false);
}

void vt_control_hold(void)
{
	if (!line.said) {
		say("held %" PRId64 " %s %d\n", vt_now_ns(), line.why, line.word);
		line.said = true;
		if (line.record) {
			fflush(line.record);
		}
	}
	receive(true);
	if (line.running) {
		/* What the lab has sent to the guest must not arrive at a time that the wall clock
		 * sets. */
		for (int i = 0; i < INPUT_WAITS && line.input_bytes < line.input_wanted; i++) {
			/* The main loop does not know by itself that the guest can read again. */
			qemu_notify_event();
			bql_unlock();
			g_usleep(INPUT_WAIT_US);
			bql_lock();
		}
	}
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared folders: virtiofsd serves a request at its own pace, in wall time. So the guest that rings
 * its doorbell stands still until all requests are served and the interrupt is there: files cost
 * no virtual time, and their speed does not show.
 *
 * Split virtqueues only (struct vring, linux/virtio_ring.h); no virtiofsd has packed ones.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/event_notifier.h"
#include "hw/virtio/virtio.h"
#include "hw/virtio/vhost-user-fs.h"
#include "standard-headers/linux/virtio_ring.h"
#include "loop.h"

#define QUEUES_MAX 64
#define SERVED_WITHIN_US (60 * G_USEC_PER_SEC)
#define SIGNAL_WITHIN_MS 100
#define SPIN_US 200
#define SLEEP_US 20

typedef struct Queue {
	VirtIODevice *device;
	VirtQueue *queue;
	struct vhost_virtqueue *ring;
	uint16_t seen; /* used index when last settled */
} Queue;

static Queue queues[QUEUES_MAX];
static int nr_queues = -1;

static int add_device(Object *object, void *opaque)
{
	VHostUserFS *fs = (VHostUserFS *)object_dynamic_cast(object, TYPE_VHOST_USER_FS);

	for (int i = 0; fs && i < fs->vhost_dev.nvqs && nr_queues < QUEUES_MAX; i++) {
		VirtIODevice *device = VIRTIO_DEVICE(fs);

		queues[nr_queues++] =
			(Queue){ device, virtio_get_queue(device, i), &fs->vhost_dev.vqs[i], 0 };
	}
	return 0;
}

static uint16_t word_at(const void *ring, size_t offset)
{
	return le16_to_cpu(qatomic_read((const uint16_t *)((const char *)ring + offset)));
}

static uint16_t offered(const Queue *q)
{
	return word_at(q->ring->avail, offsetof(struct vring_avail, idx));
}

static uint16_t served(const Queue *q)
{
	return word_at(q->ring->used, offsetof(struct vring_used, idx));
}

/*
 * True if the guest will ring for its next request. virtiofsd asks for that only after it has
 * looked for more. What comes before is served without a bell, at whatever time.
 */
static bool wants_doorbell(const Queue *q)
{
	if (virtio_vdev_has_feature(q->device, VIRTIO_RING_F_EVENT_IDX)) {
		return word_at(q->ring->used,
			       offsetof(struct vring_used, ring) +
				       q->ring->num * sizeof(struct vring_used_elem)) == offered(q);
	}
	return !(word_at(q->ring->used, offsetof(struct vring_used, flags)) &
		 VRING_USED_F_NO_NOTIFY);
}

/* True if virtiofsd signals what it has served since we looked last. */
static bool wants_signal(const Queue *q)
{
	if (virtio_vdev_has_feature(q->device, VIRTIO_RING_F_EVENT_IDX)) {
		uint16_t event = word_at(q->ring->avail, offsetof(struct vring_avail, ring) +
								 q->ring->num * sizeof(uint16_t));

		return vring_need_event(event, served(q), q->seen);
	}
	return !(word_at(q->ring->avail, offsetof(struct vring_avail, flags)) &
		 VRING_AVAIL_F_NO_INTERRUPT);
}

static bool is_served(const Queue *q)
{
	return served(q) == offered(q);
}

static bool wait_until(bool (*holds)(const Queue *), const Queue *q, int64_t within_us)
{
	int64_t began_us = g_get_monotonic_time(), passed_us = 0;

	while (!holds(q) && passed_us < within_us) {
		if (passed_us > SPIN_US) {
			g_usleep(SLEEP_US);
		}
		passed_us = g_get_monotonic_time() - began_us;
	}
	return holds(q);
}

static void settle(Queue *q)
{
	EventNotifier *signal = virtio_queue_get_guest_notifier(q->queue);
	struct pollfd poll_fd = { .fd = event_notifier_get_fd(signal), .events = POLLIN };

	if (!wait_until(is_served, q, SERVED_WITHIN_US) ||
	    !wait_until(wants_doorbell, q, SIGNAL_WITHIN_MS * 1000)) {
		warn_report("A shared folder did not answer; this run will not repeat exactly.");
	}
	if (served(q) != q->seen) {
		poll(&poll_fd, 1, wants_signal(q) ? SIGNAL_WITHIN_MS : 0);
		virtio_queue_guest_notifier_read(signal);
		q->seen = served(q);
	}
}

static void find_queues(void)
{
	if (nr_queues < 0) {
		nr_queues = 0;
		object_child_foreach_recursive(object_get_root(), add_device, NULL);
	}
}

static bool is_up(const Queue *q)
{
	return q->ring->avail && q->ring->used;
}

void vt_files_settle(EventNotifier *doorbell)
{
	find_queues();
	for (int i = 0; i < nr_queues; i++) {
		Queue *q = &queues[i];

		/* The other queues may hold what their vCPU has not rung the bell for yet. */
		if (virtio_queue_get_host_notifier(q->queue) == doorbell && is_up(q)) {
			settle(q);
		}
	}
}

/* virtiofsd signals without cause when it gets the means to: soon after, by wall time. */
bool vt_files_served(EventNotifier *signal)
{
	find_queues();
	for (int i = 0; i < nr_queues; i++) {
		Queue *q = &queues[i];

		if (virtio_queue_get_guest_notifier(q->queue) == signal) {
			return is_up(q) && served(q) != q->seen;
		}
	}
	return true;
}

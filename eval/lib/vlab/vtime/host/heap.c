// SPDX-License-Identifier: GPL-2.0-only
/* A binary min-heap of numbered items by time: O(log n), nothing allocated after it is made. */
#include <stdlib.h>

#include "model.h"

bool vt_heap_make(VtHeap *heap, int items)
{
	heap->order = malloc(sizeof(*heap->order) * items);
	heap->place = malloc(sizeof(*heap->place) * items);
	heap->time = malloc(sizeof(*heap->time) * items);
	if (!heap->order || !heap->place || !heap->time)
		return false;
	vt_heap_clear(heap, items);
	return true;
}

void vt_heap_free(VtHeap *heap)
{
	free(heap->order);
	free(heap->place);
	free(heap->time);
}

void vt_heap_clear(VtHeap *heap, int items)
{
	heap->nr = 0;
	while (items > 0)
		heap->place[--items] = -1;
}

static bool before(const VtHeap *heap, int a, int b)
{
	return heap->time[a] != heap->time[b] ? heap->time[a] < heap->time[b] : a < b;
}

static void put(VtHeap *heap, int place, int item)
{
	heap->order[place] = item;
	heap->place[item] = place;
}

static void rise(VtHeap *heap, int place)
{
	int item = heap->order[place];

	while (place && before(heap, item, heap->order[(place - 1) / 2])) {
		put(heap, place, heap->order[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put(heap, place, item);
}

static void fall(VtHeap *heap, int place)
{
	int item = heap->order[place], child;

	while ((child = 2 * place + 1) < heap->nr) {
		if (child + 1 < heap->nr &&
		    before(heap, heap->order[child + 1], heap->order[child]))
			child++;
		if (!before(heap, heap->order[child], item))
			break;
		put(heap, place, heap->order[child]);
		place = child;
	}
	put(heap, place, item);
}

void vt_heap_set(VtHeap *heap, int item, int64_t time)
{
	int place = heap->place[item];

	if (time == VT_NEVER) {
		if (place < 0)
			return;
		heap->place[item] = -1;
		if (place == --heap->nr)
			return;
		put(heap, place, heap->order[heap->nr]);
	} else {
		heap->time[item] = time;
		if (place < 0) {
			place = heap->nr++;
			put(heap, place, item);
		}
	}
	item = heap->order[place];
	rise(heap, place);
	fall(heap, heap->place[item]);
}

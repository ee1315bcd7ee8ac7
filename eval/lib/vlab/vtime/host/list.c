// SPDX-License-Identifier: GPL-2.0-only
#include "model.h"

void vt_list_add(VtList *list, VtEntity *e)
{
	e->prev = list->last;
	e->next = NULL;
	if (list->last)
		list->last->next = e;
	else
		list->first = e;
	list->last = e;
	list->nr++;
}

void vt_list_remove(VtList *list, VtEntity *e)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		list->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		list->last = e->prev;
	list->nr--;
}

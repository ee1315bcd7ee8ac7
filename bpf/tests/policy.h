/* SPDX-License-Identifier: GPL-2.0-only */
#include "../policy/account.h"
#include "../policy/activity.h"
#include "../policy/place.h"
#include "../policy/queue.h"
#include "../policy/tunables.h"
#include "../policy/vtime.h"

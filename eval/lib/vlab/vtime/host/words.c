// SPDX-License-Identifier: GPL-2.0-only
/* Lines as words: name=value, numbers with a fixed number of decimals, lists. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "words.h"

void vt_fail(Words *w, const char *format, ...)
{
	va_list args;
	int begun = 0;

	if (w->failed)
		return;
	w->failed = true;
	if (w->line)
		begun = snprintf(w->error, w->size, "line %d: ", w->line);
	if (begun < 0 || (size_t)begun >= w->size)
		return;
	va_start(args, format);
	vsnprintf(w->error + begun, w->size - begun, format, args);
	va_end(args);
}

bool vt_is(Word word, const char *text)
{
	return strlen(text) == word.length && !memcmp(word.text, text, word.length);
}

/* The value of name=value on this line; without it, a word of no text. */
Word vt_value_of(Words *w, const char *name)
{
	size_t length = strlen(name);
	int i;

	for (i = 1; i < w->nr_words; i++) {
		Word word = w->word[i];

		if (!w->used[i] && word.length > length && word.text[length] == '=' &&
		    !memcmp(word.text, name, length)) {
			w->used[i] = true;
			return (Word){ word.text + length + 1, word.length - length - 1 };
		}
	}
	return (Word){ NULL, 0 };
}

bool vt_has(Words *w, const char *name)
{
	int i;

	for (i = 1; i < w->nr_words; i++) {
		if (!w->used[i] && vt_is(w->word[i], name))
			return w->used[i] = true;
	}
	return false;
}

/* The word after the line's first. */
Word vt_argument(Words *w)
{
	if (w->nr_words < 2 || w->used[1]) {
		vt_fail(w, "'%.*s' lacks its argument; see the grammar in describe.c",
			(int)w->word[0].length, w->word[0].text);
		return (Word){ "", 0 };
	}
	w->used[1] = true;
	return w->word[1];
}

/* Digits with up to `decimals` decimals, as a whole number of the last decimal; -1: it is not. */
static int64_t decimal(Word word, int decimals)
{
	int64_t value = 0;
	size_t i;
	int after = -1;

	if (!word.length || word.length > 17)
		return -1;
	for (i = 0; i < word.length; i++) {
		if (word.text[i] == '.' && after < 0 && i && i + 1 < word.length) {
			after = 0;
			continue;
		}
		if (word.text[i] < '0' || word.text[i] > '9' || after == decimals)
			return -1;
		value = value * 10 + word.text[i] - '0';
		after += after >= 0;
		if (value > 1000000000000ll)
			return -1;
	}
	for (after = after < 0 ? 0 : after; after < decimals; after++)
		value *= 10;
	return value;
}

int64_t vt_number(Words *w, Word word, const char *what, int decimals, int64_t least, int64_t most)
{
	int64_t value = decimal(word, decimals), unit = 1;
	int i;

	for (i = 0; i < decimals; i++)
		unit *= 10;
	if (value < least || value > most) {
		vt_fail(w, "%s is '%.*s'; it takes a number from %g to %g", what, (int)word.length,
			word.text ? word.text : "", (double)least / unit, (double)most / unit);
		return least;
	}
	return value;
}

/* A time of at least 1 ns and at most 1,000 s. */
int64_t vt_time_ns(Words *w, Word word, const char *what, int64_t least)
{
	return vt_number(w, word, what, 6, least, 1000000 * MS);
}

void vt_optional(Words *w, int64_t *value, const char *name, int decimals, int64_t least,
		 int64_t most)
{
	Word word = vt_value_of(w, name);

	if (word.text)
		*value = vt_number(w, word, name, decimals, least, most);
}

/* Cut the text before the first `by` off `rest`. */
Word vt_cut(Word *rest, char by)
{
	const char *at = memchr(rest->text, by, rest->length);
	Word word = *rest;

	if (at)
		word.length = at - rest->text;
	rest->text += word.length + !!at;
	rest->length -= word.length + !!at;
	return word;
}

VtMask vt_list(Words *w, Word rest, const char *what, int count)
{
	VtMask mask = { { 0 } };

	if (!rest.length)
		vt_fail(w, "%s is missing; it takes a list such as 0-3,6", what);
	while (rest.length && !w->failed) {
		Word part = vt_cut(&rest, ','), from = vt_cut(&part, '-');
		int64_t i = vt_number(w, from, what, 0, 0, count - 1);
		int64_t last = part.length ? vt_number(w, part, what, 0, i, count - 1) : i;

		for (; i <= last && !w->failed; i++)
			vt_mask_add(&mask, i);
	}
	return mask;
}

void vt_read_words(Words *w, Word line)
{
	w->nr_words = 0;
	for (;;) {
		while (line.length && strchr(" \t\r", *line.text)) {
			line.text++;
			line.length--;
		}
		if (!line.length || *line.text == '#')
			return;
		if (w->nr_words == MAX_WORDS) {
			vt_fail(w, "it has more than %d words; split it", MAX_WORDS);
			return;
		}
		w->used[w->nr_words] = false;
		w->word[w->nr_words].text = line.text;
		while (line.length && !strchr(" \t\r", *line.text)) {
			line.text++;
			line.length--;
		}
		w->word[w->nr_words].length = line.text - w->word[w->nr_words].text;
		w->nr_words++;
	}
}

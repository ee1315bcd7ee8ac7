/* SPDX-License-Identifier: GPL-2.0-only */
/* The words of a line, and the first thing that is wrong with the text. */
#ifndef VT_WORDS_H
#define VT_WORDS_H

#include "plan.h"

#define MAX_WORDS 24
#define US 1000ll
#define MS 1000000ll

typedef struct Word {
	const char *text; /* NULL: there is none */
	size_t length;
} Word;

typedef struct Words {
	int line; /* from 1; 0: the text as a whole */
	Word word[MAX_WORDS];
	bool used[MAX_WORDS]; /* by one of the functions below */
	int nr_words;
	char *error; /* a sentence, once it failed */
	size_t size;
	bool failed;
} Words;

void vt_read_words(Words *w, Word line);
/* Cut the text before the first `by` off `rest`. */
Word vt_cut(Word *rest, char by);
bool vt_is(Word word, const char *text);
/* The value of name=value on this line. */
Word vt_value_of(Words *w, const char *name);
/* Whether the line has this word. */
bool vt_has(Words *w, const char *name);
/* The word after the line's first. */
Word vt_argument(Words *w);

/* Keep the first error, with its line. */
void vt_fail(Words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* These fail, and return the least value, if the word is not of their kind or range. */
int64_t vt_number(Words *w, Word word, const char *what, int decimals, int64_t least, int64_t most);
/* ms as ns, at most 1,000 s */
int64_t vt_time_ns(Words *w, Word word, const char *what, int64_t least);
/* Change *value if the line has name=. */
void vt_optional(Words *w, int64_t *value, const char *name, int decimals, int64_t least,
		 int64_t most);
/* Numbers from 0 to count - 1 */
VtMask vt_list(Words *w, Word rest, const char *what, int count);

#endif

/* The loops of sparsetangent/kernels/loops.py and row_steps.py as a C compiler has them, for the comparison: float rows, 64-bit ids. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT, TABLE_RATIO = 2 };

/* dst[ids[i]] += rows[i] */
void add_rows(float *restrict dst, const int64_t *restrict ids, const float *restrict rows, int64_t n, int64_t d, int64_t size)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = ids[i];
        if (k < 0 || k >= size)
            continue;
        for (int64_t j = 0; j < d; j++)
            dst[k * d + j] += rows[i * d + j];
    }
}

/* rows[i] = src[ids[i]], zeros for padding */
void gather_rows(const float *restrict src, const int64_t *restrict ids, float *restrict rows, int64_t n, int64_t d, int64_t size)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = ids[i];
        if (k < 0 || k >= size)
            memset(rows + i * d, 0, d * sizeof *rows);
        else
            memcpy(rows + i * d, src + k * d, d * sizeof *rows);
    }
}

static int64_t by_table(const int64_t *ids, int64_t n, int64_t size, int64_t *distinct, int64_t *inverse)
{
    int64_t count = 0, *rank = calloc(size, sizeof *rank);
    if (!rank)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < size)
            rank[ids[i]] = 1;
    for (int64_t k = 0; k < size; k++)
        if (rank[k]) {
            distinct[count] = k;
            rank[k] = count++;
        }
    for (int64_t i = 0; i < n; i++)
        inverse[i] = ids[i] >= 0 && ids[i] < size ? rank[ids[i]] : count;
    free(rank);
    return count;
}

struct sorted {
    int64_t *keys, *key_memory;
    int32_t *places, *place_memory;
};

static void free_sorted(struct sorted in)
{
    free(in.key_memory);
    free(in.place_memory);
}

/* The ids ascending, and where each was, by a radix sort; no keys without memory. */
static struct sorted in_order(const int64_t *ids, int64_t n, int64_t size)
{
    int64_t *keys = malloc(2 * n * sizeof *keys), *other = keys + n, counts[DIGITS];
    int32_t *places = malloc(2 * n * sizeof *places), *other_places = places + n;
    struct sorted in = {keys, keys, places, places};
    if (!keys || !places)
        return (struct sorted){0};
    memcpy(keys, ids, n * sizeof *keys);
    for (int64_t i = 0; i < n; i++)
        places[i] = (int32_t)i;
    for (int shift = 0; size >> shift; shift += DIGIT) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++)
            counts[(keys[i] >> shift) & (DIGITS - 1)]++;
        int64_t total = 0;
        for (int digit = 0; digit < DIGITS; digit++) {
            int64_t here = counts[digit];
            counts[digit] = total;
            total += here;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t at = counts[(keys[i] >> shift) & (DIGITS - 1)]++;
            other[at] = keys[i];
            other_places[at] = places[i];
        }
        int64_t *k = keys;
        keys = other, other = k;
        int32_t *p = places;
        places = other_places, other_places = p;
    }
    in.keys = keys, in.places = places;
    return in;
}

static int64_t by_sort(const int64_t *ids, int64_t n, int64_t size, int64_t *distinct, int64_t *inverse)
{
    struct sorted in = in_order(ids, n, size);
    int64_t count = 0;
    if (!in.keys)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = in.keys[i];
        if (k < 0 || k >= size) {
            inverse[in.places[i]] = -1;
            continue;
        }
        if (!count || distinct[count - 1] != k)
            distinct[count++] = k;
        inverse[in.places[i]] = count - 1;
    }
    for (int64_t i = 0; i < n; i++)
        if (inverse[i] < 0)
            inverse[i] = count;
    free_sorted(in);
    return count;
}

/* The distinct ids, ascending, their number, and the place of each entry among them; -1 without memory. */
int64_t distinct_ids(const int64_t *ids, int64_t n, int64_t size, int64_t *distinct, int64_t *inverse)
{
    return (size <= TABLE_RATIO * n ? by_table : by_sort)(ids, n, size, distinct, inverse);
}

/* dst[ids[i]] += factor * rows[i] */
void add_multiples(float *restrict dst, const int64_t *restrict ids, const float *restrict rows, int64_t n, int64_t d, int64_t size,
                   float factor)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = ids[i];
        if (k < 0 || k >= size)
            continue;
        for (int64_t j = 0; j < d; j++)
            dst[k * d + j] += factor * rows[i * d + j];
    }
}

static void adagrad_row(float *restrict p, float *restrict s, const float *restrict g, int64_t d, float rate, float epsilon)
{
    for (int64_t j = 0; j < d; j++) {
        float sum = s[j] + g[j] * g[j];
        s[j] = sum;
        p[j] -= rate * g[j] / (sqrtf(sum) + epsilon);
    }
}

/* Rows grouped by id, each group summed and applied; -1 without memory. */
int64_t adagrad(float *restrict p, float *restrict s, const int64_t *restrict ids, const float *restrict rows, int64_t n, int64_t d,
                int64_t size, float rate, float epsilon)
{
    struct sorted in = in_order(ids, n, size);
    float *total = malloc(d * sizeof *total);
    if (!in.keys || !total)
        return -1;
    for (int64_t i = 0, stop; i < n; i = stop) {
        int64_t k = in.keys[i];
        for (stop = i + 1; stop < n && in.keys[stop] == k; stop++)
            ;
        if (k < 0 || k >= size)
            continue;
        const float *g = rows + in.places[i] * d;
        if (stop - i > 1) {
            memset(total, 0, d * sizeof *total);
            for (int64_t e = i; e < stop; e++)
                for (int64_t j = 0; j < d; j++)
                    total[j] += rows[in.places[e] * d + j];
            g = total;
        }
        adagrad_row(p + k * d, s + k * d, g, d, rate, epsilon);
    }
    free(total);
    free_sorted(in);
    return 0;
}

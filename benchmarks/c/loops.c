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

static int64_t by_sort(const int64_t *ids, int64_t n, int64_t size, int64_t *distinct, int64_t *inverse)
{
    int64_t *memory = malloc(2 * n * sizeof *memory), *keys = memory, *other = memory + n, counts[DIGITS], count = 0;
    int32_t *places = malloc(2 * n * sizeof *places), *kept = places, *other_places = places + n;
    if (!memory || !places)
        return -1;
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
    for (int64_t i = 0; i < n; i++) {
        if (keys[i] < 0 || keys[i] >= size) {
            inverse[places[i]] = -1;
            continue;
        }
        if (!count || distinct[count - 1] != keys[i])
            distinct[count++] = keys[i];
        inverse[places[i]] = count - 1;
    }
    for (int64_t i = 0; i < n; i++)
        if (inverse[i] < 0)
            inverse[i] = count;
    free(memory);
    free(kept);
    return count;
}

/* The distinct ids, ascending, their number, and the place of each entry among them; -1 without memory. */
int64_t distinct_ids(const int64_t *ids, int64_t n, int64_t size, int64_t *distinct, int64_t *inverse)
{
    return (size <= TABLE_RATIO * n ? by_table : by_sort)(ids, n, size, distinct, inverse);
}

void sgd(float *restrict p, const int64_t *restrict ids, const float *restrict rows, int64_t n, int64_t d, int64_t size, float rate)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = ids[i];
        if (k < 0 || k >= size)
            continue;
        for (int64_t j = 0; j < d; j++)
            p[k * d + j] -= rate * rows[i * d + j];
    }
}

void adagrad(float *restrict p, float *restrict s, const int64_t *restrict ids, const float *restrict rows, int64_t n, int64_t d,
             int64_t size, float rate, float epsilon)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = ids[i];
        if (k < 0 || k >= size)
            continue;
        for (int64_t j = 0; j < d; j++) {
            float g = rows[i * d + j], sum = s[k * d + j] + g * g;
            s[k * d + j] = sum;
            p[k * d + j] -= rate * g / (sqrtf(sum) + epsilon);
        }
    }
}

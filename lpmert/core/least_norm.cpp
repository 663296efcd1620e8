#include "least_norm.hpp"

#include <algorithm>

#include "clones.hpp"

namespace lpmert {

namespace {

constexpr double VANISHED = 1e-16;        // squared length at which a point counts as the origin
constexpr double SMALLEST_NORM = 1e-280;  // squared length of a difference that can be normalised
constexpr int MOST_ROUNDS = 500;
constexpr double CAP_TOLERANCE = 1e-12;
// What rows of length 1 keep from 0 within a cap, so that the nearest weights do not tie.
constexpr double CAP_MARGIN = 1e-9;

std::size_t room(Index n) { return static_cast<std::size_t>(n); }

double squared_length(const double* vector, Index n) {
    double total = 0.0;
    for (Index d = 0; d < n; ++d) total += vector[d] * vector[d];
    return total;
}

}  // namespace

Corral::Corral(Index n_features)
    : n(n_features), numbers(room(n + most() * (n + 3 + most()))), names(room(2 * most())) {}

Corral& Corral::operator=(const Corral& other) {
    size = other.size;
    std::copy(other.point(), other.row(size), point());
    std::copy_n(other.lists(), size, lists());
    std::copy_n(other.others(), size, others());
    Corral& source = const_cast<Corral&>(other);
    std::copy_n(source.multipliers(), size, multipliers());
    std::copy_n(source.solution(), size, solution());
    std::copy_n(source.reciprocals(), size, reciprocals());
    for (Index k = 0; k < size; ++k) std::copy(source.factor(k) + k, source.factor(k) + size, factor(k) + k);
    return *this;
}

void Corral::take(Index size_, Span<const double> numbers_, Span<const Index> names_) {
    check_size(numbers_.size(), static_cast<Index>(numbers.size()), "numbers");
    check_size(names_.size(), static_cast<Index>(names.size()), "names");
    if (size_ < 0 || size_ > most()) throw std::invalid_argument("size must not exceed the room of a corral");
    size = size_;
    std::copy(numbers_.begin(), numbers_.end(), numbers.begin());
    std::copy(names_.begin(), names_.end(), names.begin());
}

void Corral::restart(const double* weights) {
    size = 0;
    std::copy_n(weights, n, point());
}

void Corral::append(Span<const double> cap, double* work) {
    const bool capped = cap.size() > 0;
    const double least = capped ? 0.0 : 1.0;
    const double* added = row(size);
    double diagonal = least, goal = capped ? CAP_MARGIN : 1.0;
    for (Index d = 0; d < n; ++d) diagonal += added[d] * added[d];
    if (capped) {
        for (Index d = 0; d < n; ++d) goal -= added[d] * cap[d];
    }
    for (Index j = 0; j < size; ++j) {
        const double* other = row(j);
        double value = least;
        for (Index d = 0; d < n; ++d) value += other[d] * added[d];
        work[j] = value;
    }
    for (Index q = 0; q < size; ++q) {
        double* own = factor(q);
        const double value = work[q] * reciprocals()[q];
        for (Index j = q + 1; j < size; ++j) work[j] -= value * own[j];
        own[size] = value;
        diagonal -= value * value;
        goal -= value * solution()[q];
    }
    diagonal = std::sqrt(std::max(diagonal, 1e-15));
    factor(size)[size] = diagonal;
    solution()[size] = goal / diagonal;
    reciprocals()[size] = 1.0 / diagonal;
    ++size;
}

double Corral::solve(double* solved) {
    double total = 0.0;
    for (Index i = size - 1; i >= 0; --i) {
        const double* own = factor(i);
        double value = solution()[i];
        // What was solved last comes last: little waits for it.
        for (Index q = size - 1; q > i; --q) value -= own[q] * solved[q];
        solved[i] = value * reciprocals()[i];
        total += solved[i];
    }
    return total;
}

void Corral::remove(Index i) {
    const Index last = size - 1;
    std::copy(row(i + 1), row(size), row(i));
    std::copy(multipliers() + i + 1, multipliers() + size, multipliers() + i);
    std::copy(lists() + i + 1, lists() + size, lists() + i);
    std::copy(others() + i + 1, others() + size, others() + i);
    for (Index q = 0; q < i; ++q) std::copy(factor(q) + i + 1, factor(q) + size, factor(q) + i);
    for (Index q = i; q < last; ++q) {
        double *upper = factor(q), *lower = factor(q + 1);
        const double length = std::sqrt(upper[q + 1] * upper[q + 1] + lower[q + 1] * lower[q + 1]);
        const double over = 1.0 / length, cosine = upper[q + 1] * over, sine = lower[q + 1] * over;
        upper[q] = length;
        reciprocals()[q] = over;
        for (Index j = q + 1; j < last; ++j) {
            const double x = upper[j + 1], y = lower[j + 1];
            upper[j] = cosine * x + sine * y;
            lower[j + 1] = cosine * y - sine * x;
        }
        const double x = solution()[q], y = solution()[q + 1];
        solution()[q] = cosine * x + sine * y;
        solution()[q + 1] = cosine * y - sine * x;
    }
    size = last;
}

LeastNorm::LeastNorm(const Lists& lists_)
    : lists(lists_),
      solved(room(lists.n_features() + 4)),
      column(room(lists.n_features() + 4)),
      scores_of_list(room(lists.longest())),
      again(lists.n_features()) {}

double LeastNorm::moved(const Index* chosen, const Corral& corral) const {
    const Index n = lists.n_features();
    const double off = squared_length(lists.spread.begin(), n);
    if (off == 0.0) return 0.0;
    double total = 0.0;
    for (Index k = 0; k < corral.size; ++k) {
        const Index s = corral.lists()[k];
        const double* best = lists.row(lists.offsets[s] + chosen[s]);
        const double* other = lists.row(lists.offsets[s] + corral.others()[k]);
        double norm = 0.0;
        for (Index d = 0; d < n; ++d) norm += (best[d] - other[d]) * (best[d] - other[d]);
        total += 4.0 * off / norm;
    }
    return std::sqrt(total) * (1.0 + 1e-9);
}

// With B = [rows | 1], square where columns of zeros are left out, the exact multipliers solve B^T x = (0, 1). They
// differ from the given ones by at most |residual| / smallest singular value of B, which is at least 1 / |factor^-1|_F,
// as factor factor^T = B B^T. The multipliers are solved for anew, with a factor of known error: that of the corral has
// been rotated.
bool LeastNorm::surely_inside(Corral& corral, double off) {
    const Index n = lists.n_features(), size = corral.size;
    Index used = 0;
    for (Index d = 0; d < n; ++d) {
        for (Index k = 0; k < size; ++k) {
            if (corral.row(k)[d] != 0.0 || lists.spread[d] > 0.0) {
                ++used;
                break;
            }
        }
    }
    if (size != used + 1) return false;
    again.size = 0;
    std::copy_n(corral.row(0), size * n, again.row(0));
    while (again.size < size) again.append(lists.cap, column.data());
    const double scale = 1.0 / again.solve(corral.multipliers());
    for (Index k = 0; k < size; ++k) corral.multipliers()[k] *= scale;
    double inverse_norm = 0.0;
    for (Index j = 0; j < size; ++j) {
        std::fill(column.begin() + j, column.begin() + size, 0.0);
        column[j] = 1.0;
        for (Index i = j; i < size; ++i) {
            const double value = column[i] * again.reciprocals()[i];
            inverse_norm += value * value;
            const double* own = again.factor(i);
            for (Index q = i + 1; q < size; ++q) column[q] -= value * own[q];
        }
    }
    // What the rounding of the factor (of entries up to 2 * size in sum of squares) can take from the singular value.
    const double count = static_cast<double>(size);
    const double squared = 1.0 / inverse_norm - 8.0 * count * count * count * EPSILON;
    if (!(squared > 0.0)) return false;
    const double changed = 16.0 * count * EPSILON + off;
    const double smallest = std::sqrt(squared) - changed;
    if (!(smallest > 0.0)) return false;
    double total = -1.0, least = std::numeric_limits<double>::infinity();
    for (Index k = 0; k < size; ++k) {
        total += corral.multipliers()[k];
        least = std::min(least, corral.multipliers()[k]);
    }
    double residual = total * total;
    for (Index d = 0; d < n; ++d) {
        double value = 0.0;
        for (Index k = 0; k < size; ++k) value += corral.multipliers()[k] * corral.row(k)[d];
        residual += value * value;
    }
    return least > 2.0 * (std::sqrt(residual) + changed) / smallest;
}

Verdict LeastNorm::separate(Span<const Index> decided, const Index* chosen, Index start, Corral& corral) {
    const Index n = lists.n_features();
    const bool capped = lists.cap.size() > 0;
    double *point = corral.point(), *scores = scores_of_list.data(), *target = solved.data();
    if (capped && corral.size == 0) std::copy_n(lists.cap.begin(), n, point);
    ++programs;
    Index position = start;
    for (int round = 0; round < MOST_ROUNDS; ++round) {
        const double norm = squared_length(point, n);
        if (capped) {
            double mass = 1.0;
            for (Index k = 0; k < corral.size; ++k) mass += corral.multipliers()[k];
            double least = lists.cap[n] - CAP_TOLERANCE - 16.0 * static_cast<double>(n) * EPSILON * mass;
            if (least > 0.0 && norm < least * least) {
                least -= mass * moved(chosen, corral);
                if (least > 0.0 && norm < least * least) return Verdict::infeasible;
            }
        }
        if (corral.size > 0 && norm < VANISHED) {
            return surely_inside(corral, moved(chosen, corral)) ? Verdict::infeasible : Verdict::undecided;
        }
        // The list after the last one that was broken comes first; of a list, its best other hypothesis enters.
        const double bound = rounding_bound(lists, point);
        Index entering = -1, entering_list = -1;
        for (Index looked = 0; looked < decided.size(); ++looked) {
            const Index s = decided[position], length = lists.length(s);
            if (length > 1) {
                score_list(lists, s, point, scores);
                const double lead = scores[chosen[s]];
                scores[chosen[s]] = -std::numeric_limits<double>::infinity();
                const Index best = largest(scores, length);
                if (!(lead - scores[best] > bound)) {
                    entering = best;
                    entering_list = s;
                    break;
                }
            }
            position = position + 1 == decided.size() ? 0 : position + 1;
        }
        if (entering < 0) return in_cap(lists, point) ? Verdict::feasible : Verdict::undecided;
        if (corral.size >= n + 2) return Verdict::undecided;
        for (Index k = 0; k < corral.size; ++k) {
            if (corral.lists()[k] == entering_list && corral.others()[k] == entering)
                return Verdict::undecided;  // it stalls
        }
        ++rounds;
        double* added = corral.row(corral.size);
        const double* best = lists.row(lists.offsets[entering_list] + chosen[entering_list]);
        const double* other = lists.row(lists.offsets[entering_list] + entering);
        for (Index d = 0; d < n; ++d) added[d] = best[d] - other[d];
        double length = squared_length(added, n);
        if (length < SMALLEST_NORM) return Verdict::undecided;
        length = 1.0 / std::sqrt(length);
        for (Index d = 0; d < n; ++d) added[d] *= length;
        corral.lists()[corral.size] = entering_list;
        corral.others()[corral.size] = entering;
        corral.multipliers()[corral.size] = corral.size == 0 && !capped ? 1.0 : 0.0;
        corral.append(lists.cap, column.data());
        // Move towards the affine least-norm point, dropping rows whose multiplier would turn negative.
        while (true) {
            const double total = corral.solve(target), scale = capped ? 1.0 : 1.0 / total;
            double step = 1.0;
            Index leaving = -1;
            for (Index i = 0; i < corral.size; ++i) {
                target[i] *= scale;
                if (target[i] <= 1e-12) {
                    const double gap = corral.multipliers()[i] - target[i];
                    const double reach = gap > 1e-300 ? corral.multipliers()[i] / gap : 0.0;
                    if (reach < step || leaving < 0) {
                        step = reach;
                        leaving = i;
                    }
                }
            }
            if (leaving < 0) {
                std::copy_n(target, corral.size, corral.multipliers());
                break;
            }
            const Index newest = corral.size - 1;
            for (Index i = 0; i <= newest; ++i) corral.multipliers()[i] += step * (target[i] - corral.multipliers()[i]);
            for (Index i = newest; i >= 0; --i) {
                if (i == leaving || (i < newest && !(corral.multipliers()[i] > 1e-14))) corral.remove(i);
            }
        }
        for (Index d = 0; d < n; ++d) point[d] = capped ? lists.cap[d] : 0.0;
        for (Index k = 0; k < corral.size; ++k) {
            const double *row = corral.row(k), multiplier = corral.multipliers()[k];
            for (Index d = 0; d < n; ++d) point[d] += multiplier * row[d];
        }
    }
    return Verdict::undecided;
}

}  // namespace lpmert

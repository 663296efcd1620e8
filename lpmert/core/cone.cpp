#include "cone.hpp"

#include <algorithm>
#include <cmath>

namespace lpmert::cells {

namespace {

constexpr Index SAMPLED_LISTS = 100;  // lists that tell where to split, about
constexpr double OUTWARD = 1e-7;      // by how much normals ask for less than the cone has, see K4

// Write the columns of the inverse of a matrix [D, D] as rows; false if there is none. By Gauss-Jordan elimination with
// partial pivoting.
bool inverse_by_columns(const double* matrix, Index n, double* columns) {
    std::vector<double> left(matrix, matrix + n * n);
    std::fill(columns, columns + n * n, 0.0);
    for (Index k = 0; k < n; ++k) columns[k * n + k] = 1.0;
    for (Index k = 0; k < n; ++k) {
        Index pivot = k;
        for (Index i = k + 1; i < n; ++i)
            if (std::abs(left[i * n + k]) > std::abs(left[pivot * n + k])) pivot = i;
        const double value = left[pivot * n + k];
        if (value == 0.0) return false;
        for (Index d = 0; d < n; ++d) {
            std::swap(left[k * n + d], left[pivot * n + d]);
            std::swap(columns[d * n + k], columns[d * n + pivot]);
        }
        for (Index d = 0; d < n; ++d) {
            left[k * n + d] /= value;
            columns[d * n + k] /= value;
        }
        for (Index i = 0; i < n; ++i) {
            const double factor = left[i * n + k];
            if (i == k || factor == 0.0) continue;
            for (Index d = 0; d < n; ++d) {
                left[i * n + d] -= factor * left[k * n + d];
                columns[d * n + i] -= factor * columns[d * n + k];
            }
        }
    }
    return true;
}

}  // namespace

bool outer_normals(const double* rays, Index n, double* normals) {
    if (!inverse_by_columns(rays, n, normals)) return false;
    std::vector<double> widened(static_cast<std::size_t>(n), 0.0);
    for (Index k = 0; k < n; ++k)
        for (Index d = 0; d < n; ++d) widened[d] += normals[k * n + d];
    bool certain = true;
    for (Index k = 0; k < n; ++k) {
        double* const normal = normals + k * n;
        double largest = 0.0;
        for (Index d = 0; d < n; ++d) {
            normal[d] += OUTWARD * widened[d];
            largest = std::max(largest, std::abs(normal[d]));
        }
        if (!(0.0 < largest && largest < std::numeric_limits<double>::infinity())) return false;
        for (Index d = 0; d < n; ++d) normal[d] /= largest;
        for (Index j = 0; j < n; ++j) {
            double product = 0.0, size = 0.0;
            for (Index d = 0; d < n; ++d) {
                product += rays[j * n + d] * normal[d];
                size += std::abs(rays[j * n + d] * normal[d]);
            }
            certain = certain && product > static_cast<double>(n + 2) * EPSILON * size;
        }
    }
    return certain;
}

Cones::Cones(const Lists& lists, const Settings& settings) : settings_(settings) {
    const auto n = static_cast<std::size_t>(lists.n_features());
    disagreement_.resize(n * n);
    ones_.assign(n, 1.0);
    best_.resize(n);
    for (Index i = 0; i < lists.n_rows(); ++i) {
        double size = 0.0;
        for (Index d = 0; d < lists.n_features(); ++d) size += std::abs(lists.row(i)[d]);
        largest_ = std::max(largest_, size);
    }
}

// The edge with the most cost at stake between its ends' winners, weighted by its length. Lists tied at one end have
// the other end's winner at both: no split comes nearer to a ray in which many boundaries meet.
void Cones::longest_edge(const Cone& cone) {
    const Index n = cone.n_features(), n_lists = cone.n_lists();
    std::fill(disagreement_.begin(), disagreement_.end(), 0.0);
    for (Index a = 0; a < n_lists; a += std::max<Index>(1, n_lists / SAMPLED_LISTS)) {
        for (Index d = 0; d < n; ++d) {
            const double* const scores = cone.values[d];
            best_[d] = std::max_element(scores + cone.ends[a], scores + cone.ends[a + 1]) - scores;
        }
        for (Index p = 0; p < n; ++p) {
            for (Index q = p + 1; q < n; ++q) {
                const Index first = best_[p], second = best_[q];
                if (cone.values[p][second] < cone.values[p][first] && cone.values[q][first] < cone.values[q][second])
                    disagreement_[p * n + q] += static_cast<double>(std::abs(cone.costs[first] - cone.costs[second]));
            }
        }
    }
    double most = -1.0;
    first_ = 0;
    second_ = 1;
    for (Index p = 0; p < n; ++p) {
        for (Index q = p + 1; q < n; ++q) {
            double length = 0.0;
            for (Index d = 0; d < n; ++d) length += std::abs(cone.rays[p * n + d] - cone.rays[q * n + d]);
            const double stake = (disagreement_[p * n + q] + 1e-3) * length;
            if (stake > most) {
                most = stake;
                first_ = p;
                second_ = q;
            }
        }
    }
}

// Compute the scores at the middle of the edge and what they are off; false if that ray is not exact.
bool Cones::midpoint(const Cone& cone) {
    const Index n = cone.n_features();
    const double *const first = cone.values[first_], *const second = cone.values[second_];
    bool exact_ray = true, exact = true;
    for (Index d = 0; d < n; ++d)
        exact_ray = exact_ray && exact_sum(cone.rays[first_ * n + d], cone.rays[second_ * n + d]);
    double largest = 0.0;
    middle_.resize(cone.ids.size());
    for (Index i = 0; i < cone.n_rows(); ++i) {
        exact &= exact_sum(first[i], second[i]);
        middle_[i] = 0.5 * (first[i] + second[i]);
        largest = std::max(largest, std::abs(middle_[i]));
    }
    error_ = 0.5 * (cone.errors[first_] + cone.errors[second_]) * (1.0 + 4.0 * EPSILON);
    if (!exact) error_ += EPSILON * largest;
    return exact_ray;
}

bool Cones::branch(const Cone& cone, Index hopeless) {
    if (cone.stalled >= hopeless) return false;
    longest_edge(cone);
    return midpoint(cone);
}

void Cones::take(const Cone& cone, Cone& half, Index replaced) {
    const Index n = cone.n_features();
    half.rays = cone.rays;
    half.errors = cone.errors;
    replaced_ = replaced;
    if (replaced >= 0) {
        half.errors[replaced] = error_;
        for (Index d = 0; d < n; ++d)
            half.rays[replaced * n + d] = 0.5 * (cone.rays[first_ * n + d] + cone.rays[second_ * n + d]);
    }
    tolerance_ = 4.0 * static_cast<double>(n * n) * EPSILON * largest_;
    for (const double error : half.errors) tolerance_ += 2.0 * error;
}

void Cones::halve(const Cone& cone, int which, Cone& half) { take(cone, half, which == 0 ? first_ : second_); }

void Cones::whole(const Cone& cone, Cone& same) { take(cone, same, -1); }

void Cones::view(const Cone& cone, View& values) const {
    for (Index d = 0; d < cone.n_features(); ++d) values[d] = d == replaced_ ? middle_.data() : cone.values[d];
}

namespace {

LPMERT_CLONES
void leads_at_rays(const View& values, Index begin, Index end, const std::vector<double>& errors, const Row* best,
                   Index one, double* leads) {
    const Index n = end - begin;
    std::fill_n(leads, n, std::numeric_limits<double>::infinity());
    for (Index d = 0; d < count(errors); ++d) {
        const double* const scores = values[d] + begin;
        const double off = 2.0 * errors[d], score = scores[one];
        const auto take = [&](Index j, double lead) { leads[j] = lead < leads[j] ? lead : leads[j]; };
        if (best != nullptr)
            for (Index j = 0; j < n; ++j) take(j, scores[best[j]] - scores[j] - off);
        else
            for (Index j = 0; j < n; ++j) take(j, scores[j] - score - off);
    }
}

}  // namespace

void Cones::vary(const View& values, Index begin, Index end, const Cone& half, const Row* best, Index one,
                 double* varied) const {
    leads_at_rays(values, begin, end, half.errors, best, one, varied);
}

std::vector<double> Cones::centre(const Cone& cone) {
    const Index n = cone.n_features();
    std::vector<double> sum(static_cast<std::size_t>(n), 0.0);
    for (Index k = 0; k < n; ++k)
        for (Index d = 0; d < n; ++d) sum[d] += cone.rays[k * n + d];
    return sum;
}

std::vector<double> Cones::normals(const Cone& cone) {
    std::vector<double> found(cone.rays.size());
    if (!outer_normals(cone.rays.data(), cone.n_features(), found.data())) found.clear();
    return found;
}

}  // namespace lpmert::cells

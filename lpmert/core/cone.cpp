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
    best_.resize(n);
}

// The edge with the most cost at stake between its ends' winners, weighted by its length. Lists tied at one end have
// the other end's winner at both: no split comes nearer to a ray in which many boundaries meet.
void Cones::longest_edge(const Cone& cone) {
    const Index n = cone.n_features(), n_lists = cone.n_lists();
    std::fill(disagreement_.begin(), disagreement_.end(), 0.0);
    for (Index a = 0; a < n_lists; a += std::max<Index>(1, n_lists / SAMPLED_LISTS)) {
        for (Index d = 0; d < n; ++d) {
            double top = -std::numeric_limits<double>::infinity();
            for (Index i = cone.ends[a]; i < cone.ends[a + 1]; ++i) {
                if (cone.score(i)[d] > top) {
                    top = cone.score(i)[d];
                    best_[d] = i;
                }
            }
        }
        for (Index p = 0; p < n; ++p) {
            for (Index q = p + 1; q < n; ++q) {
                const double *first = cone.score(best_[p]), *second = cone.score(best_[q]);
                if (second[p] < first[p] && first[q] < second[q])
                    disagreement_[p * n + q] +=
                        static_cast<double>(std::abs(cone.costs[best_[p]] - cone.costs[best_[q]]));
            }
        }
    }
    double most = -1.0;
    edge_ = Edge{};
    for (Index p = 0; p < n; ++p) {
        for (Index q = p + 1; q < n; ++q) {
            double length = 0.0;
            for (Index d = 0; d < n; ++d) length += std::abs(cone.rays[p * n + d] - cone.rays[q * n + d]);
            const double stake = (disagreement_[p * n + q] + 1e-3) * length;
            if (stake > most) {
                most = stake;
                edge_.first = p;
                edge_.second = q;
            }
        }
    }
}

// Compute the scores at the middle of the edge and what they are off; false if that ray is not exact.
bool Cones::midpoint(const Cone& cone) {
    const Index n = cone.n_features(), p = edge_.first, q = edge_.second;
    bool exact_ray = true, exact = true;
    for (Index d = 0; d < n; ++d) exact_ray = exact_ray && exact_sum(cone.rays[p * n + d], cone.rays[q * n + d]);
    double largest = 0.0;
    middle_.resize(cone.ids.size());
    for (Index i = 0; i < cone.n_rows(); ++i) {
        const double a = cone.score(i)[p], b = cone.score(i)[q];
        exact = exact && exact_sum(a, b);
        middle_[i] = 0.5 * (a + b);
        largest = std::max(largest, std::abs(middle_[i]));
    }
    edge_.error = 0.5 * (cone.errors[p] + cone.errors[q]) * (1.0 + 4.0 * EPSILON);
    if (!exact) edge_.error += EPSILON * largest;
    return exact_ray;
}

bool Cones::branch(const Cone& cone, Index hopeless) {
    if (cone.stalled >= hopeless) return false;
    longest_edge(cone);
    return midpoint(cone);
}

void Cones::halve(const Cone& cone, int which, Cone& half) {
    const Index n = cone.n_features();
    replaced_ = which == 0 ? edge_.first : edge_.second;
    half.rays = cone.rays;
    half.errors = cone.errors;
    half.errors[replaced_] = edge_.error;
    for (Index d = 0; d < n; ++d)
        half.rays[replaced_ * n + d] = 0.5 * (cone.rays[edge_.first * n + d] + cone.rays[edge_.second * n + d]);
}

void Cones::whole(const Cone& cone, Cone& same) {
    replaced_ = -1;
    same.rays = cone.rays;
    same.errors = cone.errors;
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

Survivors Cones::survivors(const Cone& cone, const Lists&) {
    Survivors found;
    found.ids.assign(cone.ids.begin(), cone.ids.end());
    found.costs.assign(cone.costs.begin(), cone.costs.end());
    found.ends = cone.ends;
    found.own = found.fixed = cone.own;
    for (Index a = 0; a < cone.n_lists(); ++a) found.fixed -= cone.costs[cone.ends[a]];
    return found;
}

}  // namespace lpmert::cells

#include "loss.hpp"

#include <algorithm>

namespace lpmert {

namespace {

double bleu(Span<const double> total) {
    const double matches = total[0] * total[2] * total[4] * total[6];
    if (matches <= 0.0) return 1.0;
    double score = std::sqrt(std::sqrt(matches / (total[1] * total[3] * total[5] * total[7])));
    if (total[1] < total[8]) score *= std::exp(1.0 - total[8] / total[1]);
    return 1.0 - score;
}

double fraction(Span<const double> parameters, Span<const double> total) {
    const Index n = total.size();
    double above = parameters[n], below = parameters[2 * n + 1];
    for (Index k = 0; k < n; ++k) {
        above += parameters[k] * total[k];
        below += parameters[n + 1 + k] * total[k];
    }
    return below > 0.0 ? above / below : 1.0;
}

double chrf(double squared, Span<const double> total) {
    double precision = 0.0, recall = 0.0;
    int orders = 0;
    for (Index n = 0; n < total.size(); n += 3) {
        if (total[n] > 0.0 && total[n + 1] > 0.0) {
            precision += total[n + 2] / total[n];
            recall += total[n + 2] / total[n + 1];
            ++orders;
        }
    }
    const double below = squared * precision + recall;
    return below > 0.0 ? 1.0 - (1.0 + squared) * precision * recall / (below * orders) : 1.0;
}

double per(Span<const double> total) {
    const double wrong = std::max(total[1], total[2]) - total[0];
    return wrong < total[2] ? wrong / total[2] : 1.0;
}

}  // namespace

double loss_of_total(Formula formula, Span<const double> parameters, Span<const double> total) {
    switch (formula) {
        case Formula::BLEU:
            return bleu(total);
        case Formula::FRACTION:
            return fraction(parameters, total);
        case Formula::CHRF:
            return chrf(parameters[0], total);
        case Formula::PER:
            return per(total);
    }
    return std::numeric_limits<double>::quiet_NaN();
}

void check_formula(Formula formula, Index parameters, Index statistics) {
    bool right = true;
    switch (formula) {
        case Formula::BLEU:
            right = statistics == 9;
            break;
        case Formula::FRACTION:
            right = parameters == 2 * statistics + 2;
            break;
        case Formula::CHRF:
            right = parameters == 1 && statistics % 3 == 0;
            break;
        case Formula::PER:
            right = statistics == 3;
            break;
    }
    if (!right) throw std::invalid_argument("the metric takes another number of statistics or parameters");
}

}  // namespace lpmert

// bench/framework/runner.cpp -- runs the selected cases, peers interleaved, and compares checksums.

#include "framework/runner.hpp"

#include "framework/text.hpp"
#include "support/process.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>

namespace bench {
namespace {

struct bench_case {
    const workload* work;
    parameters params;
    std::vector<peer> peers;

    [[nodiscard]] std::string name() const {
        const std::string params_text = params.as_text();
        return params_text.empty() ? work->name : work->name + " " + params_text;
    }
};

bool selects(const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// The cross product of all parameters' values, the first parameter slowest.
std::vector<parameters> parameter_sets(const workload& work, const options& selected) {
    std::vector<parameters> sets(1);
    bool all_given = true;
    for (const parameter& param : work.params) {
        const auto given = selected.values.find(param.name);
        all_given = all_given && given != selected.values.end();
        const std::vector<std::string>& values = given != selected.values.end() ? given->second
                                                 : selected.quick               ? param.quick
                                                                                : param.table;
        std::vector<parameters> longer;
        for (const parameters& set : sets) {
            for (const std::string& value : values) {
                if (!param.takes(value)) continue;  // given for another workload
                longer.push_back(set);
                longer.back().set(param.name, value, param.is_word());
            }
        }
        sets = std::move(longer);
    }
    if (work.in_table && !all_given) {
        std::erase_if(sets, [&](const parameters& set) { return !work.in_table(set); });
    }
    return sets;
}

std::vector<bench_case> plan(const options& selected) {
    std::vector<bench_case> cases;
    for (const workload& work : workloads()) {
        if (!selects(selected.works, work.name)) continue;
        for (const parameters& set : parameter_sets(work, selected)) {
            bench_case planned{&work, set, {}};
            for (const peer& p : peers_of(work.name)) {
                if (!selects(selected.peers, p.name)) continue;
                if (p.takes && !p.takes(set)) {
                    std::fprintf(stderr, "left out: %s on %s, too large for it\n", p.name.c_str(),
                                 planned.name().c_str());
                    continue;
                }
                planned.peers.push_back(p);
            }
            if (!planned.peers.empty()) cases.push_back(std::move(planned));
        }
    }
    return cases;
}

void tell_missing(const options& selected) {
    for (const missing_peer& missing : missing_peers()) {
        if (!selects(selected.peers, missing.name)) continue;
        std::fprintf(stderr, "left out: %s, because %s was not installed when this was built\n",
                     missing.name.c_str(), missing.package.c_str());
    }
}

double median(std::vector<double> runs) {
    std::sort(runs.begin(), runs.end());
    const std::size_t middle = runs.size() / 2;
    return runs.size() % 2 == 1 ? runs[middle] : (runs[middle - 1] + runs[middle]) / 2;
}

// Digits beyond the fourth decimal are noise in every unit we use; a median may need a fifth.
double rounded(double value, double scale) {
    return std::round(value * scale) / scale;
}

// Runs one case to the end, or throws std::runtime_error with the reason why it does not count.
class case_run {
public:
    case_run(const bench_case& planned, const options& selected)
        : case_(planned),
          repeat_(selected.repeat.value_or(selected.quick ? 1 : 5)),
          job_{planned.params,
               selected.seconds.value_or(selected.quick ? planned.work->quick_seconds
                                                        : planned.work->seconds),
               selected.quick} {
        for (const peer& p : planned.peers) {
            for (const metric& m : planned.work->metrics) {
                figures_.push_back(
                    {planned.work->name, p.name, planned.params, m.name, m.unit, {}});
            }
        }
    }

    std::vector<figure> run() {
        for (std::size_t round = 0; round < repeat_; ++round) {
            for (const peer& p : case_.peers) {
                run_once(p, round);
            }
        }
        std::erase_if(figures_, [](const figure& f) { return f.runs.empty(); });
        for (figure& f : figures_) {
            f.value = rounded(median(f.runs), 1e5);
        }
        return std::move(figures_);
    }

private:
    void run_once(const peer& p, std::size_t round) {
        release_free_memory();  // so that no peer starts with another's heap
        const outcome found = p.run(job_);
        std::fprintf(stderr, "%s: %s, run %zu of %zu:", case_.name().c_str(), p.name.c_str(),
                     round + 1, repeat_);
        for (const metric& m : case_.work->metrics) {
            const auto value = found.figures.find(m.name);
            if (value == found.figures.end()) continue;
            std::fprintf(stderr, "  %s %s", m.name.c_str(), readable_number(value->second).c_str());
        }
        std::fprintf(stderr, "\n");
        for (const auto& [name, value] : found.figures) {
            record(p, name, value);
        }
        compare(p, found.checksum);
    }

    void record(const peer& p, const std::string& name, double value) {
        const auto wanted = [&](const figure& f) { return f.peer == p.name && f.metric == name; };
        const auto found = std::find_if(figures_.begin(), figures_.end(), wanted);
        if (found == figures_.end()) {
            throw std::runtime_error(p.name + " reports an undeclared metric, " + name);
        }
        found->runs.push_back(rounded(value, 1e4));
    }

    void compare(const peer& p, std::uint64_t checksum) {
        if (!checksum_) {
            checksum_ = checksum;
            first_peer_ = p.name;
        } else if (*checksum_ != checksum) {
            char text[128];
            std::snprintf(text, sizeof text, " has %016" PRIx64 " where %s has %016" PRIx64,
                          checksum, first_peer_.c_str(), *checksum_);
            throw std::runtime_error("unequal work, so no figure counts: checksum of " + p.name +
                                     text);
        }
    }

    const bench_case& case_;
    std::size_t repeat_;
    job job_;
    std::vector<figure> figures_;
    std::optional<std::uint64_t> checksum_;
    std::string first_peer_;
};

}  // namespace

bool misses_a_peer(const options& selected) {
    const auto wanted = [&](const missing_peer& m) { return selects(selected.peers, m.name); };
    return std::any_of(missing_peers().begin(), missing_peers().end(), wanted);
}

run_report run_selected(const options& selected,
                        const std::function<void(const figure&)>& on_figure) {
    tell_missing(selected);
    const std::vector<bench_case> cases = plan(selected);
    run_report report;
    for (const bench_case& planned : cases) {
        std::fprintf(stderr, "[%zu of %zu] %s\n", ++report.cases, cases.size(),
                     planned.name().c_str());
        try {
            for (figure& f : case_run(planned, selected).run()) {
                on_figure(f);
                report.figures.push_back(std::move(f));
            }
        } catch (const std::exception& error) {
            report.failures.push_back(planned.name() + ": " + error.what());
            std::fprintf(stderr, "FAILED: %s\n", report.failures.back().c_str());
        }
    }
    return report;
}

}  // namespace bench

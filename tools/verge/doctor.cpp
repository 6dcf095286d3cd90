// tools/verge/doctor.cpp -- `verge doctor`: what the facts about a machine mean for the library.

#include "doctor.hpp"

#include "commands.hpp"
#include "json.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace verge::tool {

namespace {

finding clock_source(const machine_facts& m) {
    if (m.clock_source == "tsc" || m.clock_source == "arch_sys_counter") {
        return {verdict::good, "clock source", m.clock_source,
                "The clock is read without a system call: about 20 ns for each schedule_after."};
    }
    if (m.clock_source == "kvm-clock" || m.clock_source == "hyperv_clocksource_tsc_page") {
        return {verdict::good, "clock source", m.clock_source,
                "A virtual machine's clock, read without a system call; a little dearer than tsc."};
    }
    return {
        verdict::note, "clock source", m.clock_source.empty() ? "not told" : m.clock_source,
        "Reading the time may be a system call, several hundred ns each: schedule_after pays it "
        "on every call. schedule_at with a time that you already have does not."};
}

finding timer_slack(const machine_facts& m) {
    if (!m.timer_slack_ns) {
        return {verdict::note, "timer slack", "not told",
                "The kernel may wake sleeping threads late by an unknown amount."};
    }
    return {verdict::good, "timer slack", fmt::format("{} ns", *m.timer_slack_ns),
            "How late the kernel may wake an ordinary thread to save power. Verge's timer thread "
            "sets its own to 1 ns."};
}

finding processors(const machine_facts& m) {
    const double usable =
        std::min<double>(m.processors_allowed, m.processors_quota.value_or(m.processors_allowed));
    std::string value = fmt::format("{}", m.processors_online);
    if (m.processors_allowed < m.processors_online) {
        value += fmt::format(", {} allowed", m.processors_allowed);
    }
    if (m.processors_quota) value += fmt::format(", quota {:.2g}", *m.processors_quota);
    if (m.processors_quota && *m.processors_quota < m.processors_allowed) {
        return {verdict::note, "processors", std::move(value),
                "The container may use less time than its processors have. When the quota of a "
                "period is used up all threads stand still until the next, up to 100 ms: timers "
                "are then that late."};
    }
    if (usable < 2) {
        return {verdict::note, "processors", std::move(value),
                "One processor: a timer waits for whatever runs at its time to be preempted."};
    }
    return {verdict::good, "processors", std::move(value),
            "The timer thread can run beside your threads. Fiber schedulers start up to one worker "
            "for each."};
}

finding memory_limit(const machine_facts& m) {
    if (!m.memory_limit_bytes) {
        return {verdict::good, "memory limit", "none", "No limit of a container was found."};
    }
    // A pending timer takes 128 bytes, a sleeping fiber about 4400.
    const double bytes = static_cast<double>(*m.memory_limit_bytes);
    return {verdict::good, "memory limit", fmt::format("{:.0f} MiB", bytes / 1048576),
            fmt::format("Room for about {:.2g} million pending timers, or {:.2g} million sleeping "
                        "fibers, and nothing else.",
                        bytes / 128e6, bytes / 4400e6)};
}

finding threads(const machine_facts& m) {
    if (!m.thread_limit) {
        return {verdict::good, "thread limit", "none", "Threads can be made as needed."};
    }
    const bool few = *m.thread_limit < 64;
    return {few ? verdict::note : verdict::good, "thread limit", fmt::format("{}", *m.thread_limit),
            few ? "Few threads: a timer_thread takes one, a fiber scheduler one for each worker; "
                  "when one is refused, std::system_error is thrown."
                : "Enough: a timer_thread takes one, a fiber scheduler one for each worker."};
}

finding files(const machine_facts& m) {
    const bool few = m.file_limit < 4096;
    return {few ? verdict::note : verdict::good, "open files", fmt::format("{}", m.file_limit),
            few ? "A server has one for each connection: raise it (ulimit -n) for thousands of "
                  "them. Timers need none."
                : "A server has one for each connection. Timers need none."};
}

finding mappings(const machine_facts& m) {
    const std::string value = m.most_mappings ? fmt::format("{}", *m.most_mappings) : "not told";
    if (m.has_guard_install) {
        return {verdict::good, "mappings", value,
                "Does not limit fibers here, as guards need no mapping of their own."};
    }
    return {verdict::note, "mappings", value,
            fmt::format("Each fiber's stack with a guard takes two: at most about {} fibers with "
                        "guards. Raise vm.max_map_count for more.",
                        m.most_mappings.value_or(65530) / 2)};
}

finding works(const char* name, bool has, const char* good, const char* otherwise, verdict how) {
    return {has ? verdict::good : how, name, has ? "works" : "missing", has ? good : otherwise};
}

finding sleep_lateness(const machine_facts& m) {
    if (!m.sleep_late_us) {
        return {verdict::note, "sleep lateness", "not measured",
                "How late threads wake is unknown."};
    }
    const double us = *m.sleep_late_us;
    const bool slow = us > 200;
    return {slow ? verdict::note : verdict::good, "sleep lateness", fmt::format("{:.0f} us", us),
            slow ? "A sleeping thread wakes late: the machine is busy, virtual, or saves power. "
                   "timer_thread::options::spin hides it, for the price of a processor."
                 : "How late a sleeping thread wakes here, as a median: timers are about as late. "
                   "timer_thread::options::spin brings it near 1 us."};
}

}  // namespace

std::vector<finding> diagnose(const machine_facts& m) {
    return {
        {verdict::good, "kernel", m.kernel.empty() ? "not told" : m.kernel,
         "What is missing below may be in a newer one."},
        clock_source(m),
        timer_slack(m),
        sleep_lateness(m),
        processors(m),
        memory_limit(m),
        threads(m),
        files(m),
        works(
            "futex", m.has_futex, "Threads sleep to an exact time and are woken in microseconds.",
            "Threads cannot sleep to an absolute time: timer threads and fibers do not work here.",
            verdict::bad),
        works("timerfd", m.has_timerfd, "The event loop wakes at exact nanoseconds.",
              "The event loop falls back to time-outs of epoll.", verdict::note),
        works("date changes", m.follows_date, "system_timer follows a change of the date at once.",
              "system_timer notices a change of the date only when it next wakes.", verdict::note),
        works("epoll", m.has_epoll, "The event loop and wait_fd work.",
              "Neither the event loop nor wait_fd works here.", verdict::bad),
        works("epoll_pwait2", m.has_epoll_pwait2,
              "Stands in for timerfd, to the nanosecond, should that be refused.",
              "Should timerfd be refused, the event loop waits in whole milliseconds, rounded up.",
              m.has_timerfd ? verdict::good : verdict::note),
        works("membarrier", m.has_membarrier,
              "A thread that schedules and cancels much does so without atomic operations.",
              "Each schedule and each cancel takes an atomic operation: some 5 ns more.",
              verdict::note),
        works("guard pages", m.has_guard_install,
              "MADV_GUARD_INSTALL: a million fibers can have guarded stacks.",
              "No MADV_GUARD_INSTALL (Linux 6.13): guards take a mapping each.", verdict::note),
        mappings(m),
        works("huge pages", m.has_huge_pages,
              "Pools of many timers are put into huge pages, which makes them faster to reach.",
              "Large pools of timers use small pages: somewhat slower beyond 100,000 pending.",
              verdict::note),
    };
}

namespace {

std::string_view word_of(verdict how) {
    switch (how) {
        case verdict::good:
            return "good";
        case verdict::note:
            return "note";
        case verdict::bad:
            return "bad";
    }
    return "";
}

// Lines of at most `width`, each after `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    std::string lines;
    const std::size_t room = width - indent;
    while (!text.empty()) {
        std::size_t end = text.size();
        if (end > room) {
            end = text.rfind(' ', room);
            if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
        }
        lines += fmt::format("{:{}}{}\n", "", indent, text.substr(0, end));
        text.remove_prefix(std::min(text.size(), end + 1));
    }
    return lines;
}

void print(const std::vector<finding>& findings, bool colours) {
    constexpr const char* paint[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
    for (const finding& f : findings) {
        fmt::print("  {}{:4}{}  {:<16}{}\n", colours ? paint[static_cast<int>(f.how)] : "",
                   word_of(f.how), colours ? "\x1b[0m" : "", f.name, f.value);
        fmt::print("{}", wrapped(f.meaning, 8, 90));
    }
}

int run_doctor(bool as_json) {
    const std::vector<finding> findings = diagnose(examine());
    const auto count = [&](verdict how) {
        return std::count_if(findings.begin(), findings.end(),
                             [&](const finding& f) { return f.how == how; });
    };
    const auto bad = count(verdict::bad);
    if (as_json) {
        std::vector<json_text> list;
        for (const finding& f : findings) {
            list.push_back(json_object()
                               .add("name", f.name)
                               .add("verdict", word_of(f.how))
                               .add("value", f.value)
                               .add("meaning", f.meaning));
        }
        fmt::print("{}\n",
                   json_object().add("ok", bad == 0).add("findings", json_array(list)).text());
    } else {
        fmt::print("What this machine means for timers\n\n");
        print(findings, ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr);
        fmt::print("\n{} good, {} to know, {} bad: {}\n", count(verdict::good),
                   count(verdict::note), bad,
                   bad == 0 ? "all of Verge works here" : "part of Verge does not work here");
    }
    return bad == 0 ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& program, int& status) {
    CLI::App* const command = program.add_subcommand(
        "doctor", "What this machine means for timers: clocks, limits, system calls");
    const CLI::Option* const as_json =
        command->add_flag("--json")->description("Print one JSON object instead");
    command->callback([as_json, &status] { status = run_doctor(as_json->count() > 0); });
}

}  // namespace verge::tool

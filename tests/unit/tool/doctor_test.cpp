#include "doctor.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace verge::tool {
namespace {

machine_facts good_machine() {
    return {.kernel = "6.13.0",
            .clock_source = "tsc",
            .timer_slack_ns = 50'000,
            .processors_online = 4,
            .processors_allowed = 4,
            .file_limit = 1'000'000,
            .most_mappings = 65'530,
            .has_futex = true,
            .has_timerfd = true,
            .follows_date = true,
            .has_epoll = true,
            .has_epoll_pwait2 = true,
            .has_membarrier = true,
            .has_guard_install = true,
            .has_huge_pages = true,
            .sleep_late_us = 50};
}

finding about(const machine_facts& m, std::string_view name) {
    for (const finding& f : diagnose(m))
        if (f.name == name) return f;
    ADD_FAILURE() << "nothing about " << name;
    return {};
}

TEST(Doctor, AGoodMachineIsGood) {
    for (const finding& f : diagnose(good_machine())) {
        EXPECT_EQ(f.how, verdict::good) << f.name;
        EXPECT_FALSE(f.value.empty()) << f.name;
        EXPECT_TRUE(f.meaning.ends_with('.')) << f.name;
    }
}

TEST(Doctor, TellsTheSameListForEveryMachine) {
    const auto some = diagnose(good_machine());
    const auto others = diagnose(machine_facts{});
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
        EXPECT_EQ(some[i].name, others[i].name);
        EXPECT_FALSE(others[i].value.empty()) << others[i].name;
    }
}

TEST(Doctor, WhatVergeCannotDoWithoutIsBad) {
    machine_facts m = good_machine();
    m.has_futex = false;
    EXPECT_EQ(about(m, "futex").how, verdict::bad);
    m.has_epoll = false;
    EXPECT_EQ(about(m, "epoll").how, verdict::bad);
}

TEST(Doctor, WhatCostsSomethingIsNoted) {
    machine_facts m = good_machine();
    m.clock_source = "hpet";
    EXPECT_EQ(about(m, "clock source").how, verdict::note);
    m.processors_quota = 1.5;
    EXPECT_EQ(about(m, "processors").how, verdict::note);
    EXPECT_NE(about(m, "processors").value.find("1.5"), std::string::npos);
    m.has_timerfd = false;
    EXPECT_EQ(about(m, "timerfd").how, verdict::note);
    m.file_limit = 1024;
    EXPECT_EQ(about(m, "open files").how, verdict::note);
    m.sleep_late_us = 900;
    EXPECT_EQ(about(m, "sleep lateness").how, verdict::note);
    m.has_membarrier = false;
    EXPECT_EQ(about(m, "membarrier").how, verdict::note);
    m.thread_limit = 10;
    EXPECT_EQ(about(m, "thread limit").how, verdict::note);
}

TEST(Doctor, AQuotaAboveTheProcessorsIsNoLimit) {
    machine_facts m = good_machine();
    m.processors_quota = 8;
    EXPECT_EQ(about(m, "processors").how, verdict::good);
}

TEST(Doctor, CountsTheFibersThatMappingsAllow) {
    machine_facts m = good_machine();
    m.has_guard_install = false;
    EXPECT_EQ(about(m, "mappings").how, verdict::note);
    EXPECT_NE(about(m, "mappings").meaning.find("32765"), std::string::npos);
}

TEST(Doctor, ThisMachineRunsTheTestsSoItHasTheNecessary) {
    const machine_facts m = examine();
    EXPECT_TRUE(m.has_futex);
    EXPECT_TRUE(m.has_epoll);
    EXPECT_GE(m.processors_online, 1U);
    EXPECT_GE(m.processors_online, m.processors_allowed);
    EXPECT_FALSE(m.kernel.empty());
    EXPECT_GT(m.file_limit, 0U);
    ASSERT_TRUE(m.sleep_late_us.has_value());
    EXPECT_GE(*m.sleep_late_us, 0) << "no sleep ends early";
}

}  // namespace
}  // namespace verge::tool

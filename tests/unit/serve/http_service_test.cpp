#include "http_service.hpp"

#include "unit/observe/prometheus_parser.hpp"
#include "unit/serve/fake_backend.hpp"

#include <initializer_list>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace verge::tool {
namespace {

namespace http = boost::beast::http;
using namespace std::chrono_literals;

class HttpService : public ::testing::Test {
protected:
    using headers = std::initializer_list<std::pair<const char*, const char*>>;

    static http_request made(const char* method, const char* target, headers more = {},
                             const std::string& body = "") {
        http_request request;
        request.method_string(method);
        request.target(target);
        request.version(11);
        request.set(http::field::host, "127.0.0.1:8765");
        for (const auto& [name, value] : more)
            request.set(name, value);
        request.body() = body;
        return request;
    }
    http_response ask(const char* method, const char* target, headers more = {},
                      const std::string& body = "") {
        return fake.service.answer(made(method, target, more, body)).message;
    }
    unsigned control(const std::string& body, headers more = {},
                     const char* type = "application/x-www-form-urlencoded") {
        http_request request = made("POST", "/control", more, body);
        if (request.find(http::field::content_type) == request.end()) {
            request.set(http::field::content_type, type);
        }
        return fake.service.answer(request).message.result_int();
    }

    test::fake_service fake;
};

TEST_F(HttpService, EveryRouteAnswers) {
    EXPECT_EQ(ask("GET", "/").result_int(), 200u);
    EXPECT_EQ(ask("GET", "/healthz").body(), "ok\n");
    EXPECT_EQ(ask("HEAD", "/metrics").result_int(), 200u);
    EXPECT_EQ(ask("GET", "/healthz?x=y").result_int(), 200u);
    EXPECT_TRUE(fake.service.answer(made("GET", "/events")).events);
    for (const char* target : {"/x", "/healthz/", "//", "/%2e", "/index.html"})
        EXPECT_EQ(ask("GET", target).result_int(), 404u) << target;
    for (const char* target : {"", "*", "healthz", "ftp://127.0.0.1/"})
        EXPECT_EQ(ask("GET", target).result_int(), 400u) << target;
}

TEST_F(HttpService, WrongMethodsAreToldWhatIsAllowed) {
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
        for (const char* target : {"/", "/events", "/metrics", "/healthz"}) {
            const http_response no = ask(method, target);
            EXPECT_EQ(no.result_int(), 405u) << method << target;
            EXPECT_EQ(no[http::field::allow], "GET, HEAD");
        }
    }
    const http_response no = ask("GET", "/control");
    EXPECT_EQ(no.result_int(), 405u);
    EXPECT_EQ(no[http::field::allow], "POST");
}

TEST_F(HttpService, ThePageIsFilledInAndGuarded) {
    const http_response page = ask("GET", "/");
    EXPECT_EQ(page.body().find("{{"), std::string::npos);
    EXPECT_NE(page.body().find("content=\"0123456789abcdef\""), std::string::npos);
    EXPECT_NE(page.body().find("<script nonce=\"n0nce\">"), std::string::npos);
    EXPECT_NE(page.body().find("<style nonce=\"n0nce\">"), std::string::npos);
    EXPECT_NE(page.body().find("--series-3"), std::string::npos) << "the common style";
    const std::string policy(page["Content-Security-Policy"]);
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_NE(policy.find("script-src 'nonce-n0nce'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(page["X-Content-Type-Options"], "nosniff");
    EXPECT_EQ(page[http::field::cache_control], "no-store");
}

TEST_F(HttpService, OnlyOurOwnNamesAreServed) {
    const auto as = [&](const char* host, const char* target = "/") {
        return ask("GET", target, {{"Host", host}}).result_int();
    };
    for (const char* host :
         {"localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8765", "a.localhost:9"})
        EXPECT_EQ(as(host), 200u) << host;
    for (const char* host :
         {"", "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil",
          "10.0.0.1", "127.0.0.1:x", "[::1", "::1", "127.0.0.1:8765:1", "localhost:"})
        EXPECT_EQ(as(host), 403u) << host;
    EXPECT_EQ(as("evil.example", "/events"), 403u);
    EXPECT_EQ(as("evil.example", "/metrics"), 200u) << "a scraper comes by any name";

    test::fake_backend backend;
    http_service wide(backend, {"", "t", [] { return std::string("n"); }});
    http_request request = made("GET", "/", {{"Host", "192.168.1.7:80"}});
    EXPECT_EQ(wide.answer(request).message.result_int(), 200u);
    request.set(http::field::host, "evil.example");
    EXPECT_EQ(wide.answer(request).message.result_int(), 403u);
    http_service one(backend, {"192.168.1.7", "t", [] { return std::string("n"); }});
    request.set(http::field::host, "192.168.1.7:80");
    EXPECT_EQ(one.answer(request).message.result_int(), 200u);
    request.set(http::field::host, "192.168.1.8:80");
    EXPECT_EQ(one.answer(request).message.result_int(), 403u);
}

TEST_F(HttpService, ARequestNamesOneHost) {
    http_request request = made("GET", "/");
    request.insert(http::field::host, "127.0.0.1");
    EXPECT_EQ(fake.service.answer(request).message.result_int(), 400u);
    request.erase(http::field::host);
    EXPECT_EQ(fake.service.answer(request).message.result_int(), 400u);
    request.version(10);
    EXPECT_EQ(fake.service.answer(request).message.result_int(), 200u);
    // As to a proxy: then the target names it.
    EXPECT_EQ(ask("GET", "http://localhost:8765/healthz").result_int(), 200u);
    EXPECT_EQ(ask("GET", "HTTP://localhost").result_int(), 200u);
    EXPECT_EQ(ask("GET", "http://evil.example/").result_int(), 403u);
}

TEST_F(HttpService, AFormChangesTheLoad) {
    EXPECT_EQ(control("rate=1234.5&timeout=50ms&engine=loop&token=0123456789abcdef"), 200u);
    EXPECT_EQ(fake.backend.settings.rate, 1234.5);
    EXPECT_EQ(fake.backend.settings.time_out, 50ms);
    EXPECT_EQ(fake.backend.settings.engine, engine_kind::loop);
    EXPECT_EQ(control("rate=%31%30", {{"X-Verge-Token", test::good_token}}), 200u);
    EXPECT_EQ(fake.backend.settings.rate, 10);
    EXPECT_EQ(fake.backend.settings.time_out, 50ms);
}

TEST_F(HttpService, JsonChangesTheLoad) {
    const http_response yes =
        ask("POST", "/control",
            {{"Content-Type", "application/JSON ; charset=utf-8"},
             {"X-Verge-Token", test::good_token},
             {"Origin", "http://127.0.0.1:8765"},
             {"Sec-Fetch-Site", "same-origin"}},
            R"({ "rate" : 5e3, "timeout" : "1.5s", "engine" : "\u0066iber" } )");
    EXPECT_EQ(yes.result_int(), 200u);
    EXPECT_EQ(yes.body(),
              "{\"engine\":\"fiber\",\"rate\":5000,\"timeout_ms\":1500,\"workers\":0}\n");
    EXPECT_EQ(fake.backend.settings.engine, engine_kind::fiber);
}

TEST_F(HttpService, StrangersMayNotChangeTheLoad) {
    const std::string good = "rate=5&token=0123456789abcdef";
    EXPECT_EQ(control("rate=5"), 403u);
    EXPECT_EQ(control("rate=5&token="), 403u);
    EXPECT_EQ(control("rate=5&token=0123456789abcdeF"), 403u);
    EXPECT_EQ(control("rate=5&token=0123456789abcdef0"), 403u);
    EXPECT_EQ(control(good, {{"X-Verge-Token", "wrong"}}), 403u);
    EXPECT_EQ(control(good, {{"Origin", "http://evil.example"}}), 403u);
    EXPECT_EQ(control(good, {{"Origin", "null"}}), 403u);
    EXPECT_EQ(control(good, {{"Origin", "https://127.0.0.1:8765"}}), 403u);
    EXPECT_EQ(control(good, {{"Origin", "http://127.0.0.1:9999"}}), 403u);
    EXPECT_EQ(control(good, {{"Sec-Fetch-Site", "cross-site"}}), 403u);
    EXPECT_EQ(control(good, {{"Host", "evil.example"}}), 403u);
    EXPECT_EQ(control(good, {{"Host", "evil.example"}, {"Origin", "http://evil.example"}}), 403u);
    EXPECT_EQ(fake.backend.applied, 0);
    EXPECT_EQ(control(good), 200u);
    EXPECT_EQ(control(good, {{"Host", "Localhost:9"}, {"Origin", "http://localhost:9"}}), 200u)
        << "behind a forwarded port";

    test::fake_backend backend;
    http_service unset(backend, {"127.0.0.1", "", [] { return std::string("n"); }});
    EXPECT_EQ(unset
                  .answer(made("POST", "/control",
                               {{"Content-Type", "application/x-www-form-urlencoded"}}, "rate=5"))
                  .message.result_int(),
              403u);
}

TEST_F(HttpService, WhatIsOutOfRangeChangesNothing) {
    const std::string token = "&token=0123456789abcdef";
    for (const char* wrong :
         {"rate=0",    "rate=-5",    "rate=1e9",     "rate=nan",    "rate=inf",
          "rate=12x",  "rate=",      "rate",         "timeout=0ms", "timeout=61s",
          "timeout=5", "timeout=ms", "engine=turbo", "engine=",     "rate=5&rate=6",
          "speed=5",   "rate=%3",    "rate=%zz",     "=1",          "rate=5&timeout=x"})
        EXPECT_EQ(control(wrong + token), 400u) << wrong;
    EXPECT_EQ(control("rate=5" + token, {}, "text/plain"), 415u);
    EXPECT_EQ(control("rate=5" + token, {}, ""), 415u);
    EXPECT_EQ(fake.backend.applied, 0);
    fake.backend.fails = true;
    EXPECT_EQ(control("rate=5" + token), 500u);
}

TEST_F(HttpService, JsonIsReadStrictly) {
    for (const char* wrong : {"",
                              "{",
                              "}",
                              "[]",
                              "1",
                              "{\"rate\"}",
                              "{\"rate\":}",
                              "{\"rate\":1,}",
                              "{rate:1}",
                              "{\"rate\":1}x",
                              "{\"rate\":{}}",
                              "{\"rate\":[1]}",
                              "{\"rate\":+1}",
                              "{\"rate\":0x5}",
                              "{\"rate\":1 2}",
                              "{\"rate\":nope}",
                              "{\"a\":\"\\x\"}",
                              "{\"a\":\"\\u12\"}",
                              "{\"a\":\"\\ud800\"}",
                              "{\"a\":\"\\ud800\\u0041\"}",
                              "{\"a\":\"\\udc00\"}",
                              "{\"a\":\"\n\"}",
                              "{\"a\":\"b"})
        EXPECT_THROW(static_cast<void>(fields_of_json(wrong)), bad_text) << wrong;
    EXPECT_EQ(fields_of_json(" {} ").size(), 0u);
    const text_fields fields = fields_of_json(
        R"({"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83c\udf43","b":-1.5E+2,"c":null,"d":true})");
    ASSERT_EQ(fields.size(), 4u);
    EXPECT_EQ(fields[0].second, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\x83");
    EXPECT_EQ(fields[1].second, "-1.5E+2");
    EXPECT_EQ(fields[2].second, "null");
}

TEST_F(HttpService, MetricsAreValidAndComplete) {
    histogram late;
    late.record(1000);
    fake.backend.now.figures.calls = 12;
    fake.backend.now.figures.lateness = late.snapshot();
    fake.backend.now.figures.worker_busy = {0.25, 0.5};
    const http_response page = ask("GET", "/metrics");
    EXPECT_EQ(page[http::field::content_type], "text/plain; version=0.0.4; charset=utf-8");
    const auto metrics = verge::test::parsed_prometheus(page.body());
    const auto value = [&](std::string_view name,
                           const std::map<std::string, std::string>& labels) {
        for (const auto& m : metrics) {
            if (m.name == name && m.values.count(labels) != 0) return m.values.at(labels);
        }
        return std::string("missing");
    };
    EXPECT_EQ(value("verge_calls_total", {}), "12");
    EXPECT_EQ(value("verge_lateness_ns_p99", {}), "1000");
    EXPECT_EQ(value("verge_worker_busy_ratio", {{"worker", "1"}}), "0.5");
    EXPECT_EQ(value("verge_engine_info", {{"engine", "thread"}}), "1");
    EXPECT_EQ(value("verge_time_out_seconds", {}), "0.2");
    EXPECT_EQ(value("verge_http_requests_total", {}), "7");
}

TEST_F(HttpService, EventsAreForAFew) {
    fake.backend.room = false;
    const http_answer full = fake.service.answer(made("GET", "/events"));
    EXPECT_FALSE(full.events);
    EXPECT_EQ(full.message.result_int(), 503u);
}

TEST_F(HttpService, ASampleIsOneLineOfJson) {
    sample now;
    now.seconds = 1.5;
    now.figures.worker_busy = {0.5};
    const std::string json = sample_json(now, {});
    EXPECT_EQ(json.find('\n'), std::string::npos);
    EXPECT_NE(json.find("\"seconds\":1.5"), std::string::npos);
    EXPECT_NE(json.find("\"worker_busy\":[0.5]"), std::string::npos);
    EXPECT_NE(json.find("\"settings\":{\"engine\":\"thread\""), std::string::npos);
}

TEST(SameSecret, ComparesAllOfIt) {
    EXPECT_TRUE(same_secret("", ""));
    EXPECT_TRUE(same_secret("abc", "abc"));
    EXPECT_FALSE(same_secret("abc", "abd"));
    EXPECT_FALSE(same_secret("abc", "ab"));
    EXPECT_FALSE(same_secret("", "a"));
}

}  // namespace
}  // namespace verge::tool

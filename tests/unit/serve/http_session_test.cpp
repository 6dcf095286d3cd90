#include "http_session.hpp"

#include "unit/serve/fake_backend.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verge::tool {
namespace {

using after = http_output::after;
using test::outputs_for;

const std::string health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

// The statuses of all responses, and "close" or "events" if it ended so.
std::vector<std::string> told(http_service& service, std::string_view bytes,
                              std::size_t piece = 4096) {
    std::vector<std::string> list;
    for (const http_output& out : outputs_for(service, bytes, piece)) {
        EXPECT_TRUE(out.bytes.starts_with("HTTP/1.")) << out.bytes;
        list.push_back(out.bytes.substr(9, 3));
        if (out.then == after::close) list.emplace_back("close");
        if (out.then == after::events) list.emplace_back("events");
    }
    return list;
}
using texts = std::vector<std::string>;

std::string body_of(const std::string& response) {
    return response.substr(response.find("\r\n\r\n") + 4);
}
bool has_line(const std::string& response, const std::string& line) {
    return response.find("\r\n" + line + "\r\n") < response.find("\r\n\r\n") + 2;
}

class HttpSession : public ::testing::Test {
protected:
    test::fake_service fake;
    http_service& service = fake.service;
};

TEST_F(HttpSession, PiecesOfAnySizeGiveTheSame) {
    const std::string bytes =
        "\r\n" + health +
        "POST /control HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/x-www-form-urlencoded\r\nContent-Length: 29\r\n\r\n"
        "rate=5&token=0123456789abcdef" +
        "POST /control HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: "
        "chunked\r\n\r\n9;x=y\r\n{\"rate\":5\r\n1e\r\n,\"token\":\"0123456789abcdef"
        "\"}  \r\n0\r\nTrailer: x\r\n\r\n"
        "\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\nignored";
    for (std::size_t piece = 1; piece < bytes.size() + 1; ++piece) {
        ASSERT_EQ(told(service, bytes, piece), (texts{"200", "200", "200", "404", "close"}))
            << piece;
    }
    EXPECT_EQ(fake.backend.applied, 2 * static_cast<int>(bytes.size()));
}

TEST_F(HttpSession, KeepsTheConnectionAsTheClientWants) {
    const auto how = [&](const std::string& version, const std::string& connection) {
        const auto outputs = outputs_for(
            service, "GET /healthz HTTP/" + version + "\r\nHost: localhost\r\n" +
                         (connection.empty() ? "" : "Connection: " + connection + "\r\n") + "\r\n");
        EXPECT_EQ(outputs.size(), 1u);
        EXPECT_TRUE(outputs.at(0).bytes.starts_with("HTTP/" + version + " 200"));
        return outputs.at(0).then;
    };
    EXPECT_EQ(how("1.1", ""), after::more);
    EXPECT_EQ(how("1.1", "close"), after::close);
    EXPECT_EQ(how("1.1", "Close"), after::close);
    EXPECT_EQ(how("1.1", "keep-alive"), after::more);
    EXPECT_EQ(how("1.0", ""), after::close);
    EXPECT_EQ(how("1.0", "keep-alive"), after::more);
    const auto old = outputs_for(
        service, "GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_TRUE(has_line(old.at(0).bytes, "Connection: keep-alive"));
    const auto last = outputs_for(
        service, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + health);
    ASSERT_EQ(last.size(), 1u);
    EXPECT_TRUE(has_line(last.at(0).bytes, "Connection: close"));
}

TEST_F(HttpSession, PipelinedRequestsAreAnsweredInOrder) {
    std::string bytes;
    texts expected;
    for (int n = 0; n < 500; ++n) {
        bytes += n % 3 == 0 ? health : "GET /" + std::to_string(n) + " HTTP/1.1\r\nHost: h\r\n\r\n";
        expected.emplace_back(n % 3 == 0 ? "200" : "404");
    }
    EXPECT_EQ(told(service, bytes, 16 * 1024), expected);
    EXPECT_EQ(told(service, bytes, 7), expected);
}

TEST_F(HttpSession, HeadGetsTheHeaderAlone) {
    const auto get = outputs_for(service, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    const auto head = outputs_for(service, "HEAD /metrics HTTP/1.1\r\nHost: h\r\n\r\n" + health);
    ASSERT_EQ(head.size(), 2u);
    EXPECT_EQ(body_of(head[0].bytes), "");
    EXPECT_TRUE(has_line(head[0].bytes,
                         "Content-Length: " + std::to_string(body_of(get.at(0).bytes).size())));
    EXPECT_EQ(told(service, "HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"), texts{"200"});
}

TEST_F(HttpSession, EveryResponseHasADateAndALength) {
    for (const char* target : {"/", "/metrics", "/healthz", "/nowhere"}) {
        const auto out = outputs_for(
            service, "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
        const std::string& bytes = out.at(0).bytes;
        EXPECT_TRUE(has_line(bytes, "Content-Length: " + std::to_string(body_of(bytes).size())));
        EXPECT_NE(bytes.find("\r\nDate: "), std::string::npos);
        EXPECT_NE(bytes.find(" GMT\r\n"), std::string::npos);
    }
}

TEST_F(HttpSession, EventsEndTheRequests) {
    const auto out =
        outputs_for(service, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n" + health);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].then, after::events);
    EXPECT_TRUE(has_line(out[0].bytes, "Content-Type: text/event-stream"));
    EXPECT_TRUE(has_line(out[0].bytes, "Connection: close"));
    EXPECT_EQ(out[0].bytes.find("Content-Length"), std::string::npos);
    EXPECT_EQ(body_of(out[0].bytes), "");
}

TEST_F(HttpSession, WhatIsNoHttpIsRefused) {
    for (const std::string bad :
         {"nonsense\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n\n",
          "GET / FTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
          "GET / HTTP/1.1\r\n Host: x\r\n\r\n", "GET / HTTP/1.1\r\nA\x01: x\r\n\r\n",
          "\x16\x03\x01\x02", "GET /\x7f HTTP/1.1\r\n\r\n",
          "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
          "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
          "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
          "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: "
          "chunked\r\n\r\n0\r\n\r\n",
          "POST /control HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nxyz",
          "POST /control HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"})
        EXPECT_EQ(told(service, bad + health), (texts{"400", "close"})) << bad;
    EXPECT_EQ(told(service, "GET / HTTP/2.0\r\n\r\n"), (texts{"505", "close"}));
    EXPECT_EQ(told(service, "GET / HTTP/3.0\r\n\r\n", 1), (texts{"505", "close"}));
    EXPECT_EQ(told(service,
                   "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: "
                   "wonders\r\n\r\n"),
              (texts{"417", "close"}));
}

TEST_F(HttpSession, AClientThatAsksIsToldToGoOn) {
    EXPECT_EQ(told(service,
                   "POST /control HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: "
                   "100-continue\r\n\r\nabcde",
                   1),
              (texts{"100", "403"}));
}

TEST_F(HttpSession, SizesAreBounded) {
    const std::string start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{4096}}) {
        EXPECT_EQ(told(service, start + "X: " + std::string(4000, 'x') + "\r\n\r\n", piece),
                  texts{"200"});
        EXPECT_EQ(told(service, start + "X: " + std::string(9000, 'x') + "\r\n\r\n", piece),
                  (texts{"431", "close"}));
        EXPECT_EQ(told(service, start + "X: " + std::string(100000, 'x'), piece),
                  (texts{"431", "close"}));
        EXPECT_EQ(told(service, "GET /" + std::string(100000, 'x'), piece),
                  (texts{"431", "close"}));
        std::string many = start;
        for (int n = 0; n < 10000; ++n)
            many += "A: b\r\n";
        EXPECT_EQ(told(service, many + "\r\n", piece), (texts{"431", "close"}));

        // To the byte: with Host and the two empty lines.
        std::string most = start;
        while (most.size() + 6 + 7 <= http_session::header_limit)
            most += "A: b\r\n";
        most += "B: " + std::string(http_session::header_limit - most.size() - 7, 'b') + "\r\n\r\n";
        EXPECT_EQ(most.size(), http_session::header_limit);
        EXPECT_EQ(told(service, most + health, piece), (texts{"200", "200"})) << piece;
        most.insert(start.size(), "C");
        EXPECT_EQ(told(service, most + health, piece), (texts{"431", "close"})) << piece;

        const std::string post = "POST /control HTTP/1.1\r\nHost: localhost\r\n";
        EXPECT_EQ(
            told(service, post + "Content-Length: 4096\r\n\r\n" + std::string(4096, 'x'), piece),
            texts{"415"});
        EXPECT_EQ(told(service, post + "Content-Length: 4097\r\n\r\n", piece),
                  (texts{"413", "close"}));
        EXPECT_EQ(told(service, post + "Content-Length: 99999999999999999999\r\n\r\n", piece),
                  (texts{"400", "close"}));
        std::string chunks = post + "Transfer-Encoding: chunked\r\n\r\n";
        for (int n = 0; n < 10; ++n)
            chunks += "200\r\n" + std::string(512, 'x') + "\r\n";
        EXPECT_EQ(told(service, chunks, piece), (texts{"413", "close"}));
        std::string tiny = post + "Transfer-Encoding: chunked\r\n\r\n";
        for (int n = 0; n < 1000; ++n)
            tiny += "1;" + std::string(100, 'e') + "\r\nx\r\n";
        EXPECT_EQ(told(service, tiny, piece), (texts{"413", "close"}));
        EXPECT_EQ(
            told(service, post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(99999, 'e'),
                 piece),
            (texts{"413", "close"}));
    }
}

TEST_F(HttpSession, ASlowClientIsToldIfItHasBegun) {
    http_session fresh(service);
    EXPECT_TRUE(fresh.is_idle());
    EXPECT_EQ(fresh.time_out().bytes, "");
    EXPECT_FALSE(fresh.next());

    http_session begun(service);
    begun.receive("\r\n");
    EXPECT_FALSE(begun.next());
    EXPECT_TRUE(begun.is_idle()) << "empty lines are nothing";
    begun.receive("GET /hea");
    EXPECT_FALSE(begun.next());
    EXPECT_FALSE(begun.is_idle());
    const http_output out = begun.time_out();
    EXPECT_TRUE(out.bytes.starts_with("HTTP/1.1 408"));
    EXPECT_EQ(out.then, after::close);
    begun.receive(health);
    EXPECT_FALSE(begun.next()) << "it has ended";
    EXPECT_EQ(begun.refused(), 1u);
}

TEST_F(HttpSession, TheServerMayEndItAfterTheNextResponse) {
    http_session session(service);
    session.close_soon();
    session.receive(health + health);
    const auto out = session.next();
    ASSERT_TRUE(out);
    EXPECT_EQ(out->then, after::close);
    EXPECT_FALSE(session.next());
    EXPECT_EQ(session.requests(), 1u);
}

TEST(ClosingResponse, IsWhole) {
    const std::string text = closing_response(http_status::service_unavailable, "503: busy");
    EXPECT_TRUE(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    EXPECT_TRUE(has_line(text, "Connection: close"));
    EXPECT_EQ(body_of(text), "503: busy\n");
}

}  // namespace
}  // namespace verge::tool

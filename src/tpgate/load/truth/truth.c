/* A server-sent-events server whose every emission is scheduled and logged: the truth that a load client is held to.
 *
 * All streams step together on a global tick, as a decode batch does. A request's first token comes at the first tick
 * that is at least first_us after its arrival; from then on every tick brings one event of `chunk` tokens. Times are
 * CLOCK_MONOTONIC, taken just before the write that carries an event's last byte. Arguments are key=value pairs; the
 * log is an array of struct record. Written for Linux (epoll, timerfd); one thread. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { ARRIVAL, EMISSION, END, BLOCKED, FAULT };
enum { GENERATE, COMPLETIONS, CHAT };
enum { NONE, HTTP503, ERROR_EVENT, CUT, SILENT, NO_DONE, SHORT, ENDLESS };
static const char *FAULTS[] = {"none", "http503", "errorevent", "cut", "silent", "nodone", "short", "endless"};

struct record { int64_t ns; int32_t request, ordinal, tokens, kind; };
struct stream {
    int fd, api, usage, asked, prompt, sent, active, role, fault, request, ordinal, held;
    int64_t due, arrived;
    char *in; size_t in_len, in_cap;
    char *out; size_t out_len, out_cap;      /* bytes that the socket did not take */
    char *all; size_t all_len, all_cap;      /* ids so far, of a cumulative stream */
    char *part; size_t part_len, part_cap;   /* an event under construction, or the second part of a split one */
};

static long tick_us = 20000, first_us = 50000, chunk = 1, cumulative, split, merge = 1, slots, every, fault,
            stall_tick, stall_us;
static struct stream *streams[65536];
static int live[65536], live_count, ordinals, epoll_fd, running;
static struct record *records; static size_t record_count; static FILE *log_file;
static volatile sig_atomic_t stopping;
enum { RECORDS = 1 << 15 };

static int64_t now_ns(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void flush_log(void) {
    if (record_count) fwrite(records, sizeof *records, record_count, log_file);
    record_count = 0; fflush(log_file);
}
static void note(struct stream *s, int64_t ns, int kind) {
    if (record_count == RECORDS) flush_log();
    records[record_count++] = (struct record){ns, s->request, s->ordinal, s->sent, kind};
}
static void grow(char **buffer, size_t *capacity, size_t wanted) {
    if (wanted <= *capacity) return;
    *capacity = wanted * 2; *buffer = realloc(*buffer, *capacity);
    if (!*buffer) { perror("realloc"); exit(1); }
}
static void retire(struct stream *s) {
    if (!s->active) return;
    s->active = 0; running -= s->sent >= 0 && s->due > 0;
    for (int i = 0; i < live_count; i++)
        if (live[i] == s->fd) { memmove(live + i, live + i + 1, (--live_count - i) * sizeof *live); break; }
    if (!live_count) flush_log();
}
static void drop(struct stream *s) {
    retire(s); streams[s->fd] = NULL; close(s->fd);
    free(s->in); free(s->out); free(s->all); free(s->part); free(s);
}
static void watch(struct stream *s, uint32_t events) {
    struct epoll_event e = {.events = events, .data.fd = s->fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e);
}
static void push(struct stream *s, const char *data, size_t size) {
    size_t done = 0;
    if (!s->out_len) {
        ssize_t n = send(s->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) return;            /* the reader is gone; epoll says so next */
        done = n < 0 ? 0 : (size_t)n;
    }
    if (done == size) return;
    note(s, now_ns(), BLOCKED);
    grow(&s->out, &s->out_cap, s->out_len + size - done);
    memcpy(s->out + s->out_len, data + done, size - done); s->out_len += size - done;
    watch(s, EPOLLIN | EPOLLOUT);
}
static void append_chunk(struct stream *s, const char *payload, size_t size) {   /* in chunked coding */
    grow(&s->part, &s->part_cap, s->part_len + size + 32);
    s->part_len += sprintf(s->part + s->part_len, "%zx\r\n", size);
    memcpy(s->part + s->part_len, payload, size); s->part_len += size;
    memcpy(s->part + s->part_len, "\r\n", 2); s->part_len += 2;
}
static size_t usage_text(struct stream *s, char *to) {
    return sprintf(to, "{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":0}}", s->prompt, s->prompt + s->sent, s->sent);
}
static void token_event(struct stream *s, int fresh, const char *finish) {
    static char *text; static size_t capacity;
    char words[1024], ids[2048], usage[256]; size_t w = 0, d = 0, n = 0;
    for (int i = 0; i < fresh; i++) {
        w += sprintf(words + w, " t\xc3\xb6k%d", (s->sent - fresh + i) % 10);
        d += sprintf(ids + d, "%s%d", i ? "," : "", 1000 + (s->sent - fresh + i) % 900);
    }
    if (cumulative && s->api == GENERATE) {
        grow(&s->all, &s->all_cap, s->all_len + d + 2);
        s->all_len += sprintf(s->all + s->all_len, "%s%s", s->all_len ? "," : "", ids);
    }
    grow(&text, &capacity, 8 * (size_t)s->sent + s->all_len + w + d + 1024);
    if (s->api == GENERATE) {
        n = sprintf(text, "data: {\"text\":\"");
        if (cumulative) for (int i = 0; i < s->sent; i++) n += sprintf(text + n, " t\xc3\xb6k%d", i % 10);
        else n += sprintf(text + n, "%s", words);
        n += sprintf(text + n, "\",\"output_ids\":[%s],\"meta_info\":{\"id\":\"%08x%08x\",\"finish_reason\":",
                     cumulative ? s->all : ids, s->ordinal, s->fd);
        n += finish ? sprintf(text + n, "{\"type\":\"%s\",\"length\":%d}", finish, s->sent) : sprintf(text + n, "null");
        n += sprintf(text + n, ",\"prompt_tokens\":%d,\"weight_version\":\"default\",\"completion_tokens\":%d,"
                     "\"cached_tokens\":0}}\n\n", s->prompt, s->sent);
    } else {
        usage[usage_text(s, usage)] = 0;
        const char *quote = finish ? "\"" : "", *why = finish ? finish : "null";
        n = sprintf(text, "data: {\"id\":\"c%08x\",\"object\":\"text_completion\",\"created\":1,\"model\":\"truth\","
                    "\"choices\":[{\"index\":0,%s%s%s,\"logprobs\":null,\"finish_reason\":%s%s%s}],\"usage\":%s}\n\n",
                    s->ordinal, s->api == CHAT ? "\"delta\":{\"content\":\"" : "\"text\":\"", words,
                    s->api == CHAT ? "\"}" : "\"", quote, why, quote, s->usage ? usage : "null");
    }
    append_chunk(s, text, n);
}
static void finish_stream(struct stream *s) {
    char text[512], usage[256]; size_t n;
    s->part_len = 0;
    if (s->api != GENERATE) {
        usage[usage_text(s, usage)] = 0;
        n = sprintf(text, "data: {\"id\":\"c%08x\",\"object\":\"text_completion\",\"created\":1,\"model\":\"truth\","
                    "\"choices\":[],\"usage\":%s}\n\n", s->ordinal, usage);
        append_chunk(s, text, n);
    }
    if (s->fault != NO_DONE) append_chunk(s, "data: [DONE]\n\n", 14);
    grow(&s->part, &s->part_cap, s->part_len + 8);
    if (s->fault != ENDLESS) { memcpy(s->part + s->part_len, "0\r\n\r\n", 5); s->part_len += 5; }
    note(s, now_ns(), END); retire(s);          /* the log is whole before the client can know that it is over */
    push(s, s->part, s->part_len); s->part_len = 0;
}
/* One tick of one stream: returns 1 where a second part is still to be written. */
static int step(struct stream *s) {
    if (s->fault && s->fault != NO_DONE && s->fault != ENDLESS && s->sent >= s->asked / 2) {
        if (s->fault == SILENT) return 0;
        note(s, now_ns(), FAULT);
        if (s->fault == CUT) { drop(s); return 0; }
        if (s->fault == ERROR_EVENT) {
            const char *e = "data: {\"error\":{\"message\":\"scripted failure\",\"code\":500}}\n\n";
            s->part_len = 0; append_chunk(s, e, strlen(e)); push(s, s->part, s->part_len);
            finish_stream(s); return 0;
        }
    }
    int fresh = (int)chunk < s->asked - s->sent ? (int)chunk : s->asked - s->sent;
    s->sent += fresh; s->held++;
    int over = s->sent >= s->asked || (s->fault == SHORT && s->sent >= s->asked / 2);
    token_event(s, fresh, !over ? NULL : s->fault == SHORT ? "stop" : "length");
    if (s->held < merge && !over) return 0;
    s->held = 0;
    if (split) {
        size_t half = s->part_len / 2;
        push(s, s->part, half);
        memmove(s->part, s->part + half, s->part_len - half); s->part_len -= half;
        return 1;
    }
    note(s, now_ns(), EMISSION); push(s, s->part, s->part_len); s->part_len = 0;
    if (over) finish_stream(s);
    return 0;
}
static void second_part(struct stream *s) {
    note(s, now_ns(), EMISSION); push(s, s->part, s->part_len); s->part_len = 0;
    if (s->sent >= s->asked || (s->fault == SHORT && s->sent >= s->asked / 2)) finish_stream(s);
}
static long number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? strtol(at + strlen(key) + strspn(at + strlen(key), "\": "), NULL, 10) : 0;
}
static void begin(struct stream *s, char *head, char *body) {
    s->arrived = now_ns(); s->ordinal = ordinals++; s->sent = 0; s->held = 0; s->all_len = 0; s->part_len = 0;
    char *id = strcasestr(head, "x-request-id: tpgate-");
    s->request = id ? atoi(id + 21) : -1;
    s->api = strstr(head, "/v1/chat/completions") ? CHAT : strstr(head, "/v1/completions") ? COMPLETIONS : GENERATE;
    s->fault = every && s->ordinal % every == every - 1 ? (int)fault : NONE;
    if (strncmp(head, "POST", 4) || s->fault == HTTP503) {
        const char *text = s->fault ? "{\"error\":{\"message\":\"scripted overload\"}}" : "{}";
        char answer[256];
        int n = sprintf(answer, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        s->fault ? "503 Service Unavailable" : "200 OK", strlen(text), text);
        note(s, s->arrived, s->fault ? FAULT : END);
        if (!live_count) flush_log();
        push(s, answer, n); return;
    }
    long asked = number_after(body, "\"max_new_tokens\"");
    if (!asked) asked = number_after(body, "\"max_tokens\"");
    if (!asked) asked = number_after(body, "\"max_completion_tokens\"");
    s->asked = asked > 0 ? (int)asked : 16;
    s->usage = strstr(body, "\"continuous_usage_stats\":true") || strstr(body, "\"continuous_usage_stats\": true");
    char *list = strchr(body, '['), *stop = list ? strchr(list, ']') : NULL;
    s->prompt = 1;
    for (char *c = list; c && c < stop; c++) s->prompt += *c == (s->api == CHAT ? ' ' : ',');
    note(s, s->arrived, ARRIVAL);
    const char *answer = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                         "transfer-encoding: chunked\r\n\r\n";
    push(s, answer, strlen(answer));
    if (s->api == CHAT) {                     /* a role comes long before a token: it must not stop a client's clock */
        const char *role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                           "\"finish_reason\":null}],\"usage\":null}\n\n";
        append_chunk(s, role, strlen(role)); push(s, s->part, s->part_len); s->part_len = 0;
    }
    s->due = 0; s->active = 1; live[live_count++] = s->fd;
}

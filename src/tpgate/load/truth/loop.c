/* The event loop of the truth server; see truth.c. */
#include "truth.c"

static void take_requests(struct stream *s) {
    for (;;) {
        s->in[s->in_len] = 0;
        char *end = strstr(s->in, "\r\n\r\n");
        if (!end) return;
        char *field = strcasestr(s->in, "content-length:");
        size_t body = field && field < end ? strtoul(field + 15, NULL, 10) : 0, size = end + 4 - s->in + body;
        if (s->in_len < size) return;
        char kept = s->in[size]; s->in[size] = 0; *end = 0;
        begin(s, s->in, end + 4);
        s->in[size] = kept; memmove(s->in, s->in + size, s->in_len - size); s->in_len -= size;
    }
}
static void serve(int fd, uint32_t events) {
    struct stream *s = streams[fd];
    if (!s) return;
    if (events & EPOLLOUT && s->out_len) {
        ssize_t n = send(fd, s->out, s->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) { memmove(s->out, s->out + n, s->out_len - n); s->out_len -= n; }
        if (!s->out_len) watch(s, EPOLLIN);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        grow(&s->in, &s->in_cap, s->in_len + 65536 + 1);
        ssize_t n = recv(fd, s->in + s->in_len, 65536, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) { drop(s); return; }
        if (n > 0) { s->in_len += n; take_requests(s); }
    }
}
static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int one = 1; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (fd >= 65536) { close(fd); continue; }
        streams[fd] = calloc(1, sizeof(struct stream)); streams[fd]->fd = fd; streams[fd]->request = -1;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}
static void poll_sockets(int listener, int timer, int wait, int *ticked) {
    struct epoll_event events[256];
    int n = epoll_wait(epoll_fd, events, 256, wait);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd; uint64_t times;
        if (fd == listener) accept_all(listener);
        else if (fd == timer) *ticked |= read(timer, &times, 8) == 8;
        else serve(fd, events[i].events);
    }
}
/* A stream's first token is due at the first tick at least first_us after its arrival, once a slot is free. */
static void admit(int64_t now) {
    for (int i = 0; i < live_count; i++) {
        struct stream *s = streams[live[i]];
        if (s->due || (slots && running >= slots)) continue;
        s->due = (slots && now - s->arrived > tick_us * 1000 ? now : s->arrived) + first_us * 1000; running++;
    }
}
static void tick(int listener, int timer) {
    static int order[65536], halves[65536];
    int count = 0, split_count = 0, ticked = 0; int64_t now = now_ns();
    admit(now);
    for (int i = 0; i < live_count; i++) order[count++] = live[i];
    for (int i = 0; i < count; i++) {
        struct stream *s = streams[order[i]];
        if (s && s->active && s->due && s->due <= now && step(s)) halves[split_count++] = order[i];
        if (i % 16 == 15) poll_sockets(listener, timer, 0, &ticked);   /* so that arrivals are stamped in time */
    }
    for (int i = 0; i < split_count; i++)
        if (streams[halves[i]] && streams[halves[i]]->active) second_part(streams[halves[i]]);
}
static void stop(int sig) { (void)sig; stopping = 1; }

int main(int argc, char **argv) {
    const char *log_path = "/dev/null"; int port = 0;
    struct { const char *key; long *to; } options[] = {
        {"tick_us", &tick_us}, {"first_us", &first_us}, {"chunk", &chunk}, {"cumulative", &cumulative},
        {"split", &split}, {"merge", &merge}, {"slots", &slots}, {"every", &every}, {"stall_tick", &stall_tick},
        {"stall_us", &stall_us}};
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '='); int known = 0;
        if (!value) return 2;
        *value++ = 0;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            if (!strcmp(argv[i], options[k].key)) { *options[k].to = atol(value); known = 1; }
        if (!strcmp(argv[i], "log")) { log_path = value; known = 1; }
        if (!strcmp(argv[i], "port")) { port = atoi(value); known = 1; }
        if (!strcmp(argv[i], "fault"))
            for (int k = 0; k < 8; k++) if (!strcmp(value, FAULTS[k])) { fault = k; known = 1; }
        if (!known) { fprintf(stderr, "unknown argument %s=%s\n", argv[i], value); return 2; }
    }
    if (chunk < 1 || chunk > 100 || tick_us < 100) { fprintf(stderr, "chunk 1 to 100, tick_us from 100\n"); return 2; }
    struct rlimit files; getrlimit(RLIMIT_NOFILE, &files); files.rlim_cur = files.rlim_max; setrlimit(RLIMIT_NOFILE, &files);
    struct sigaction action = {.sa_handler = stop}; sigaction(SIGTERM, &action, NULL); sigaction(SIGINT, &action, NULL);
    if (!(log_file = fopen(log_path, "wb"))) { perror(log_path); return 1; }
    records = malloc(RECORDS * sizeof *records);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (void *)&address, length) || listen(listener, 4096)) { perror("listen"); return 1; }
    getsockname(listener, (void *)&address, &length);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), ticked = 0; long ticks = 0;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}; epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    e.data.fd = timer; epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &e);
    printf("%d\n", ntohs(address.sin_port)); fflush(stdout);
    for (int64_t due = now_ns(); !stopping;) {
        due += tick_us * 1000;
        if (due < now_ns() - 50 * tick_us * 1000) due = now_ns();     /* idle or far behind: no burst of missed ticks */
        struct itimerspec when = {.it_value = {due / 1000000000, due % 1000000000}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        for (ticked = 0; !ticked && !stopping;) poll_sockets(listener, timer, -1, &ticked);
        if (live_count && ++ticks == stall_tick) usleep(stall_us);
        tick(listener, timer);
    }
    flush_log(); fclose(log_file);
    return 0;
}

/* nfdelay PID:MICROSECONDS ...

   Holds every packet back for a constant time: what netem's delay does, for kernels without netem.
   For each PID it serves netfilter queue 0 of that process's network namespace, where a rule must send the packets:
       iptables -t mangle -A PREROUTING -i eth0 -j NFQUEUE --queue-num 0 --queue-bypass
   Only the packets' numbers come here. The kernel keeps the packets until it gets a verdict, always "accept".
   Prints "ready" and then runs until it is killed. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_HOSTS 64
#define WAITING 65536 /* packets that may wait at one host; a power of two */

struct packet {
    long due; /* nanoseconds */
    unsigned id;
};

struct host {
    int netlink;
    long delay;          /* nanoseconds */
    unsigned head, tail; /* packets[head % WAITING] is the oldest */
    struct packet packets[WAITING];
};

static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- messages to the kernel: begin, append attributes, send */

struct message {
    int length;
    _Alignas(struct nlmsghdr) char bytes[256];
};

static struct message begin(int type)
{
    struct message m = {NLMSG_LENGTH(sizeof(struct nfgenmsg)), {0}};
    struct nlmsghdr *header = (void *)m.bytes;
    header->nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | type;
    header->nlmsg_flags = NLM_F_REQUEST;
    ((struct nfgenmsg *)NLMSG_DATA(header))->version = NFNETLINK_V0;
    return m;
}

static void append(struct message *m, int type, const void *data, int size)
{
    struct nlattr *attribute = (void *)(m->bytes + m->length);
    attribute->nla_type = type;
    attribute->nla_len = NLA_HDRLEN + size;
    memcpy((char *)attribute + NLA_HDRLEN, data, size);
    m->length += NLA_ALIGN(attribute->nla_len);
}

static void send_message(int netlink, struct message *m)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ((struct nlmsghdr *)m->bytes)->nlmsg_len = m->length;
    if (sendto(netlink, m->bytes, m->length, 0, (void *)&kernel, sizeof kernel) < 0)
        perror("sendto");
}

/* ---- one host */

static void enter_network(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    int network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || setns(network, CLONE_NEWNET))
        fail(path);
    close(network);
}

/* A socket belongs to the namespace in which it was made. */
static int open_queue(void)
{
    struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    int on = 1, buffer = 32 << 20;
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (netlink < 0 || bind(netlink, (void *)&any, sizeof any))
        fail("netlink");
    setsockopt(netlink, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    setsockopt(netlink, SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on);

    struct nfqnl_msg_config_cmd cmd = {.command = NFQNL_CFG_CMD_BIND, .pf = htons(AF_INET)};
    struct message m = begin(NFQNL_MSG_CONFIG);
    append(&m, NFQA_CFG_CMD, &cmd, sizeof cmd);
    send_message(netlink, &m);

    /* no packet contents; big unsegmented packets as they are; if the queue is full let packets pass, do not drop */
    struct nfqnl_msg_config_params parameters = {.copy_range = 0, .copy_mode = NFQNL_COPY_META};
    unsigned flags = htonl(NFQA_CFG_F_GSO | NFQA_CFG_F_FAIL_OPEN), length = htonl(WAITING - 1);
    m = begin(NFQNL_MSG_CONFIG);
    append(&m, NFQA_CFG_PARAMS, &parameters, sizeof parameters);
    append(&m, NFQA_CFG_FLAGS, &flags, sizeof flags);
    append(&m, NFQA_CFG_MASK, &flags, sizeof flags);
    append(&m, NFQA_CFG_QUEUE_MAXLEN, &length, sizeof length);
    send_message(netlink, &m);
    return netlink;
}

static void note_packet(struct host *h, struct nlmsghdr *message, long arrival)
{
    char *end = (char *)message + message->nlmsg_len;
    char *at = (char *)NLMSG_DATA(message) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
    while (at + NLA_HDRLEN <= end) {
        struct nlattr *attribute = (void *)at;
        if (attribute->nla_len < NLA_HDRLEN)
            return;
        if ((attribute->nla_type & NLA_TYPE_MASK) == NFQA_PACKET_HDR) {
            struct nfqnl_msg_packet_hdr *packet = (void *)(at + NLA_HDRLEN);
            h->packets[h->tail++ % WAITING] = (struct packet){arrival + h->delay, ntohl(packet->packet_id)};
            return;
        }
        at += NLA_ALIGN(attribute->nla_len);
    }
}

static void receive(struct host *h)
{
    static _Alignas(struct nlmsghdr) char buffer[1 << 20];
    int size;
    while ((size = recv(h->netlink, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
        long arrival = now();
        for (struct nlmsghdr *m = (void *)buffer; NLMSG_OK(m, (unsigned)size); m = NLMSG_NEXT(m, size))
            if (m->nlmsg_type == (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
                note_packet(h, m, arrival);
    }
}

/* Let all packets go that are due by `time`. One verdict covers every packet up to its number. */
static void release(struct host *h, long time)
{
    unsigned first = h->head;
    while (h->head != h->tail && h->packets[h->head % WAITING].due <= time)
        h->head++;
    if (h->head == first)
        return;
    unsigned last = h->packets[(h->head - 1) % WAITING].id;
    struct nfqnl_msg_verdict_hdr verdict = {htonl(NF_ACCEPT), htonl(last)};
    struct message m = begin(NFQNL_MSG_VERDICT_BATCH);
    append(&m, NFQA_VERDICT_HDR, &verdict, sizeof verdict);
    send_message(h->netlink, &m);
}

/* Until a packet comes or the oldest one is due. */
static void wait_for_work(struct pollfd *sockets, const struct host *hosts, int n)
{
    long due = -1;
    for (int i = 0; i < n; i++)
        if (hosts[i].head != hosts[i].tail) {
            long mine = hosts[i].packets[hosts[i].head % WAITING].due;
            due = due < 0 || mine < due ? mine : due;
        }
    long left = due < 0 ? -1 : due - now();
    if (due >= 0 && left < 0)
        left = 0;
    struct timespec timeout = {left / 1000000000, left % 1000000000};
    if (ppoll(sockets, n, due < 0 ? NULL : &timeout, NULL) < 0)
        fail("ppoll");
}

int main(int argc, char **argv)
{
    int n = argc - 1, home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    static struct pollfd sockets[MAX_HOSTS];
    struct host *hosts = calloc(n, sizeof *hosts);
    if (n < 1 || n > MAX_HOSTS || !hosts) {
        fprintf(stderr, "usage: nfdelay PID:MICROSECONDS ... (1 to %d of them)\n", MAX_HOSTS);
        return 2;
    }
    /* wake up to the microsecond, and before the busy ranks */
    struct sched_param priority = {.sched_priority = 50};
    prctl(PR_SET_TIMERSLACK, 1);
    if (sched_setscheduler(0, SCHED_FIFO, &priority))
        perror("no real-time priority, delays will vary");

    for (int i = 0; i < n; i++) {
        int pid;
        long microseconds;
        if (sscanf(argv[i + 1], "%d:%ld", &pid, &microseconds) != 2) {
            fprintf(stderr, "not PID:MICROSECONDS: %s\n", argv[i + 1]);
            return 2;
        }
        enter_network(pid);
        hosts[i].delay = microseconds * 1000;
        hosts[i].netlink = open_queue();
        sockets[i] = (struct pollfd){hosts[i].netlink, POLLIN, 0};
        if (setns(home, CLONE_NEWNET))
            fail("setns");
    }
    puts("ready");
    fflush(stdout);

    for (;;) {
        wait_for_work(sockets, hosts, n);
        for (int i = 0; i < n; i++) {
            if (sockets[i].revents)
                receive(&hosts[i]);
            release(&hosts[i], now());
        }
    }
}

/* A load on a Kafka broker, from C, so that the broker is measured and not its client.

     load versions SECONDS DEPTH HOST:PORT...
     load produce  SECONDS DEPTH TOPIC ACKS RECORDS BYTES HOST:PORT:PARTITION...

   It opens one connection to each target and keeps DEPTH requests under way on each: ApiVersions version 0, or Produce
   version 7 with one batch of RECORDS records of BYTES bytes. The request is built once and sent again and again, byte
   for byte. After SECONDS it prints one line of JSON: how many requests were answered, how many of the answers were
   errors and the code of the first one, the bytes of the batches that were written, the seconds that passed, and the
   time from sending a request to its answer (median and 99th percentile, microseconds). */

#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 64, MAX_DEPTH = 64, ANSWER_BYTES = 1 << 16, API_VERSIONS = 18, PRODUCE = 0 };

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "wrong usage");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t size;
} Bytes;

static void put(Bytes *to, const void *data, size_t size) { /* the capacity was reckoned by build_request */
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

static void put_int(Bytes *to, int64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
        uint8_t octet = (uint8_t)((uint64_t)value >> shift);
        put(to, &octet, 1);
    }
}

static void put_string(Bytes *to, const char *text) {
    put_int(to, (int64_t)strlen(text), 2);
    put(to, text, strlen(text));
}

static void put_varint(Bytes *to, int64_t value) {
    uint64_t zigzag = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; zigzag > 127; zigzag >>= 7) put_int(to, (int64_t)(zigzag & 127) | 128, 1);
    put_int(to, (int64_t)zigzag, 1);
}

static size_t varint_bytes(int64_t value) {
    uint8_t scratch[10];
    Bytes measured = {scratch, 0};
    put_varint(&measured, value);
    return measured.size;
}

static void set_int32(uint8_t *at, uint32_t value) {
    Bytes place = {at, 0};
    put_int(&place, value, 4);
}

static int64_t get_int(const uint8_t *at, int bytes) {
    int64_t value = (int8_t)at[0];
    for (int i = 1; i < bytes; i++) value = value * 256 + at[i];
    return value;
}

static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

/* --- the request ------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *topic;
    int acks, records, record_bytes;
} Load;

static const char TEXT[] = "abcdefghijklmnopqrstuvwxyz0123456789 .,";

static void put_batch(Bytes *to, const Load *load) {
    size_t begin = to->size;
    struct timespec today;
    clock_gettime(CLOCK_REALTIME, &today);
    int64_t timestamp = (int64_t)today.tv_sec * 1000;
    put_int(to, 0, 8);  /* base offset */
    put_int(to, 0, 4);  /* length, set below */
    put_int(to, -1, 4); /* leader epoch */
    put_int(to, 2, 1);  /* magic */
    put_int(to, 0, 4);  /* CRC, set below */
    put_int(to, 0, 2);  /* attributes */
    put_int(to, load->records - 1, 4);
    put_int(to, timestamp, 8);
    put_int(to, timestamp, 8);
    put_int(to, -1, 8); /* producer id */
    put_int(to, -1, 2); /* producer epoch */
    put_int(to, -1, 4); /* sequence */
    put_int(to, load->records, 4);
    for (int number = 0; number < load->records; number++) {
        size_t body = 1 + 1 + varint_bytes(number) + 1 + varint_bytes(load->record_bytes) + 1;
        put_varint(to, (int64_t)body + load->record_bytes);
        put_int(to, 0, 1); /* attributes */
        put_varint(to, 0); /* timestamp delta */
        put_varint(to, number);
        put_varint(to, -1); /* no key */
        put_varint(to, load->record_bytes);
        for (int i = 0; i < load->record_bytes; i++) put(to, &TEXT[(number * 31 + i * 7) % 39], 1);
        put_varint(to, 0); /* no headers */
    }
    set_int32(to->data + begin + 8, (uint32_t)(to->size - begin - 12));
    set_int32(to->data + begin + 17, crc32c(to->data + begin + 21, to->size - begin - 21));
}

static Bytes build_request(const Load *load, int partition) {
    Bytes request = {malloc(1024 + (size_t)load->records * (size_t)(load->record_bytes + 40)), 0};
    if (!request.data) fail("memory");
    put_int(&request, 0, 4); /* size, set below */
    put_int(&request, load->topic ? PRODUCE : API_VERSIONS, 2);
    put_int(&request, load->topic ? 7 : 0, 2);
    put_int(&request, 1, 4); /* correlation id: the answers come in order */
    put_string(&request, "load");
    if (load->topic) {
        put_int(&request, -1, 2); /* no transaction */
        put_int(&request, load->acks, 2);
        put_int(&request, 30000, 4);
        put_int(&request, 1, 4);
        put_string(&request, load->topic);
        put_int(&request, 1, 4);
        put_int(&request, partition, 4);
        size_t size_at = request.size;
        put_int(&request, 0, 4);
        put_batch(&request, load);
        set_int32(request.data + size_at, (uint32_t)(request.size - size_at - 4));
    }
    set_int32(request.data, (uint32_t)(request.size - 4));
    return request;
}

/* --- the connections --------------------------------------------------------------------------------------------- */

typedef struct {
    int socket;
    Bytes request;
    size_t sent;                /* of the request that is on its way out */
    long first, next;           /* numbers of the oldest request under way, and of the next one */
    double sent_at[MAX_DEPTH];
    uint8_t answer[ANSWER_BYTES];
    size_t received;
} Connection;

static Connection connections[MAX_CONNECTIONS];
static long requests, errors, first_error;
static double bytes;
static float *latencies; /* seconds */
static long latencies_room;

static void open_connection(Connection *connection, char *target, const Load *load) {
    char *port = strchr(target, ':');
    if (!port) fail(target);
    *port++ = 0;
    char *partition = strchr(port, ':');
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1;
    if (inet_pton(AF_INET, target, &address.sin_addr) != 1) fail(target);
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address)) fail(target);
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->socket, F_SETFL, O_NONBLOCK);
    connection->request = build_request(load, partition ? atoi(partition + 1) : 0);
}

static void send_requests(Connection *connection, int depth) {
    while (connection->sent || connection->next - connection->first < depth) {
        if (!connection->sent) connection->sent_at[connection->next % MAX_DEPTH] = now();
        const Bytes *request = &connection->request;
        ssize_t count = send(connection->socket, request->data + connection->sent, request->size - connection->sent, 0);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (count < 0) fail("send");
        connection->sent += (size_t)count;
        if (connection->sent == request->size) {
            connection->sent = 0;
            connection->next++;
        }
    }
}

static void note_answer(Connection *connection, const uint8_t *answer, const Load *load) {
    if (load->topic) { /* correlation id, topics, name, partitions, index, error */
        size_t name = (size_t)get_int(answer + 8, 2);
        int64_t error = get_int(answer + 8 + 2 + name + 4 + 4, 2);
        if (error && !errors++) first_error = (long)error;
        if (!error) bytes += (double)connection->request.size;
    }
    if (requests == latencies_room) {
        latencies_room = latencies_room ? 2 * latencies_room : 1 << 16;
        latencies = realloc(latencies, (size_t)latencies_room * sizeof *latencies);
        if (!latencies) fail("memory");
    }
    latencies[requests++] = (float)(now() - connection->sent_at[connection->first++ % MAX_DEPTH]);
}

static void receive_answers(Connection *connection, const Load *load) {
    uint8_t *data = connection->answer;
    ssize_t count = recv(connection->socket, data + connection->received, ANSWER_BYTES - connection->received, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) fail("the connection was closed");
    connection->received += (size_t)count;
    size_t used = 0;
    while (connection->received - used >= 4) {
        size_t size = (size_t)get_int(data + used, 4);
        if (size > ANSWER_BYTES - 4) fail("an answer is too long");
        if (connection->received - used < 4 + size) break;
        note_answer(connection, data + used + 4, load);
        used += 4 + size;
    }
    connection->received -= used;
    memmove(data, data + used, connection->received);
}

static int by_size(const void *one, const void *other) {
    float a = *(const float *)one, b = *(const float *)other;
    return a < b ? -1 : a > b;
}

static double percentile(double part) { return requests ? latencies[(long)((double)(requests - 1) * part)] * 1e6 : 0; }

int main(int count, char **words) {
    Load load = {NULL, 0, 0, 0};
    int first = 4;
    if (count < 5) fail("arguments");
    double seconds = atof(words[2]);
    int depth = atoi(words[3]);
    if (!strcmp(words[1], "produce")) {
        if (count < 9) fail("arguments");
        load = (Load){words[4], atoi(words[5]), atoi(words[6]), atoi(words[7])};
        first = 8;
    }
    int open = count - first;
    if (open > MAX_CONNECTIONS || depth < 1 || depth > MAX_DEPTH) fail("arguments");
    for (int i = 0; i < open; i++) open_connection(&connections[i], words[first + i], &load);
    struct pollfd watched[MAX_CONNECTIONS];
    double begin = now();
    for (int i = 0; i < open; i++) send_requests(&connections[i], depth);
    while (now() - begin < seconds) {
        for (int i = 0; i < open; i++) {
            Connection *connection = &connections[i];
            int waits = connection->sent || connection->next - connection->first < depth;
            watched[i] = (struct pollfd){connection->socket, (short)(POLLIN | (waits ? POLLOUT : 0)), 0};
        }
        if (poll(watched, (nfds_t)open, 100) < 0) fail("poll");
        for (int i = 0; i < open; i++) {
            if (watched[i].revents & (POLLIN | POLLHUP | POLLERR)) receive_answers(&connections[i], &load);
            if (watched[i].revents) send_requests(&connections[i], depth);
        }
    }
    double passed = now() - begin;
    qsort(latencies, (size_t)requests, sizeof *latencies, by_size);
    printf("{\"requests\": %ld, \"bytes\": %.0f, \"errors\": %ld, \"first_error\": %ld, \"seconds\": %.3f, "
           "\"p50_us\": %.0f, \"p99_us\": %.0f}\n",
           requests, bytes, errors, first_error, passed, percentile(0.5), percentile(0.99));
    return 0;
}

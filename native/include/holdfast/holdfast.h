/* Holdfast's C interface: collectives that outlive a rank, for C, C++, Rust, Fortran and ctypes.
 *
 * Every function returns a status. On failure, hf_last_error() says what happened, to which ranks,
 * and what to do; it belongs to the calling thread and holds until that thread's next call. Handles
 * are opaque; each has a function that frees it, which takes NULL. Functions may be called from any
 * thread, but a handle must not be freed while another thread uses it. No exception leaves the
 * library. Not to be used in the child of a fork().
 *
 * Collectives: `count` is in elements. Memory stays the caller's; until the op has ended, inputs
 * must not change and outputs must not be used. `work`: NULL blocks until the op has ended; else
 * the function returns at once and *work must be waited for and freed. Input and output may be one
 * buffer wherever both have the same shape, but not in all-to-all. All ranks of a group make the
 * same calls in the same order; where they do not, every rank gets HF_PROTOCOL_ERROR and is told
 * what each of them called. Memory is the host's; for a GPU's memory see holdfast_device.h.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when functions or fields are added; existing ones stay. */
#define HF_ABI_VERSION 16

/* How a call ended. hf_status_name() gives the name of Python's exception. */
typedef enum hf_status {
  HF_OK = 0,
  HF_PEER_LOST = 1,      /* a peer died or left during the op, or before it */
  HF_TIMEOUT = 2,        /* a time limit has passed */
  HF_NOT_MEMBER = 3,     /* the group is closed, or its view has ended */
  HF_AUTH_FAILED = 4,    /* a token or certificate was refused */
  HF_PROTOCOL_ERROR = 5, /* calls that do not match, another version, damaged bytes */
  HF_CONFIG_ERROR = 6,   /* an option or argument that cannot be used */
  HF_ABORTED = 7,        /* the group was aborted here */
  HF_UNSUPPORTED = 8,    /* valid, but not provided */
  HF_SYSTEM = 9,         /* the operating system refused */
  HF_UNCONFIRMED = 10    /* the group was closed before others had confirmed what they have */
} hf_status;

/* What an element is: bool (one byte), unsigned and signed integers, floats and complex numbers of
 * so many bits. F16 is IEEE's half, BF16 is bfloat16. */
typedef enum hf_dtype {
  HF_BOOL,
  HF_U8,
  HF_I8,
  HF_U16,
  HF_I16,
  HF_U32,
  HF_I32,
  HF_U64,
  HF_I64,
  HF_F16,
  HF_BF16,
  HF_F8E4M3,
  HF_F8E5M2,
  HF_F32,
  HF_F64,
  HF_C64,
  HF_C128
} hf_dtype;

/* How the elements of all ranks are combined. */
typedef enum hf_op {
  HF_SUM,
  HF_AVG, /* not bool; of integers, the sum divided and rounded towards zero */
  HF_PRODUCT,
  HF_MIN,
  HF_MAX,
  HF_BAND, /* integers and bool, as the next two */
  HF_BOR,
  HF_BXOR
} hf_op;

/* In place of a rank, in hf_recv(): whoever sends first. */
#define HF_ANY_SOURCE (-1)

/* What the loss of a rank means to ops that no rank had completed. */
typedef enum hf_peer_loss {
  HF_CONTINUE, /* ops are repaired and go on among the survivors */
  HF_RAISE     /* HF_PEER_LOST on all survivors, from the same op on, until hf_group_advance() */
} hf_peer_loss;

/* What a hole means: the place in the result of hf_all_gather(v), hf_all_to_all(v) or hf_gather()
 * of a rank that is away and whose data no rank has. */
typedef enum hf_on_hole {
  HF_HOLE_RAISE, /* HF_PEER_LOST on all ranks, naming those that are away; the group goes on. The
                    output must not be used */
  HF_HOLE_ZERO   /* zeros there, and the ranks in hf_work_missing() */
} hf_on_hole;

typedef struct hf_node hf_node;   /* the runtime of a process: sockets, a thread */
typedef struct hf_store hf_store; /* where the members of a new group find each other */
typedef struct hf_group hf_group; /* ranks that call collectives together */
typedef struct hf_work hf_work;   /* one op in flight */

/* Whether a connection that is closed from the other side proves that its process has ended: no, so
 * that the process is called again; or yes, which splits a group where a firewall closes
 * connections. */
typedef enum hf_trust_resets { HF_TRUST_NONE = 0, HF_TRUST_LAN = 1 } hf_trust_resets;

/* Set `size` to sizeof(hf_options), or call hf_options_init(), which does. Strings are read during
 * the call that takes the options. NULL or empty: the default. New fields only go at the end, where
 * `size` ended before, and never into padding: a program that was compiled with an older header
 * passes a smaller `size`, and what its struct lacks has the default. A larger `size` than this
 * library's is refused. The same holds of every struct of options. */
typedef struct hf_options {
  size_t size;
  const char* transports;     /* "shm,tcp" (default), "shm", "tcp", "shm,ucx", "ucx" */
  int64_t timeout_ns;         /* of an op; default 30 minutes */
  int64_t connect_timeout_ns; /* for all members to appear; default 5 minutes */
  const char* address;        /* to listen on; default: found by itself */
  uint16_t port;              /* to listen on; 0: the system chooses */
  const char* host_id;        /* equal for processes of one host; default: the machine's id */
  const char* algorithm;      /* wherever it has the collective; default: the cost model chooses */
  int32_t no_fault_tolerance; /* 1: the first loss of a rank ends the group */
  hf_peer_loss on_peer_loss;  /* what the loss of a rank means */
  int64_t heartbeat_ns;       /* between two signs of life; default 0.5 s */
  const char* coordinator;    /* "host:port", or several with commas; default: the lowest rank */
  const char* plan;           /* file that says what algorithm is fastest where; default: none */
  int32_t tune;               /* 1: measure at first use what the plan lacks, and write it there */
  const char* http;       /* "host:port" to serve /metrics, /healthz, ... at; default: nowhere */
  const char* flight_dir; /* folder of the flight record; default: in memory only */
  const char* codec; /* what sums and averages of floats travel as: "int8", "onebit(block=512)";
                        a lossless one, "bfloat" or "zstd", carries what is moved, too;
                        default: as they are */
  uint64_t codec_min_bytes; /* from how many bytes on; default 64 KiB */
  int64_t time_slice_ns; /* of threads that wait for other ranks; default 100 us; -1: left alone */
  hf_on_hole on_hole;    /* of handles that do not set it; default HF_HOLE_RAISE */
  int64_t silence_ns;    /* without a sign of life, until a rank may be voted out; default 10 s */
  hf_trust_resets trust_resets; /* what a closed connection proves; default HF_TRUST_NONE */
  const char* topology;         /* file with a map of the world's links; default: none */
  const char* domain;           /* what is around the host: "site-a/rack-2"; default: not known */
  const char* secret_file;      /* file with the secret of the job; default: connections are open */
  const char* http_credentials; /* file of who may read the pages; default: whoever reaches them */
  const char* http_cert;        /* PEM file of the pages' certificate; default: no TLS for pages */
  const char* http_key;         /* PEM file of its key */
  const char* audit_file;       /* file with a line for each caller; default: none */
  int32_t http_insecure;        /* 1: others may reach pages that lack what locks them */
  int64_t grace_ns; /* as silence_ns, but with a secret, for ranks that are cut off; default 15 s */
  const char* witness; /* "KEY:FOLDER" of whoever waits for this process; default: nobody */
  const char* trunk;   /* "auto", "on" or "off": whether links between hosts outlive connections */
  uint64_t lanes;      /* most connections of such a link, 1 to 16; default 16 */
  const char*
      relay; /* "host:port[,...]" of relays, for ranks that cannot be called; default: none */
  const char* mesh; /* "auto", "full" or "sparse": which ranks are connected from the start */
} hf_options;

/* A store that the caller provides. Both functions return a status; get() waits until the key is
 * set, at most timeout_ns, then copies at most `capacity` bytes and sets *length to the whole
 * length. */
typedef struct hf_store_functions {
  size_t size;
  void* context;
  hf_status (*set)(void* context, const char* key, const void* value, size_t length);
  hf_status (*get)(void* context, const char* key, int64_t timeout_ns, void* value, size_t capacity,
                   size_t* length);
} hf_store_functions;

/* ---- versions and errors ---- */

/* The version of the library, "0.1.0". */
const char* hf_version(void);
/* HF_ABI_VERSION of the library, which may be newer than the header's. */
int hf_abi_version(void);
/* The name of the status, "PeerLost": that of the Python exception. HF_OK: "ok". */
const char* hf_status_name(hf_status status);
/* The message of the calling thread's last call if it failed, else "". */
const char* hf_last_error(void);
/* The ranks that the error is about: copies at most `capacity`, returns how many there are. */
size_t hf_last_error_ranks(int32_t* ranks, size_t capacity);

/* ---- set-up ---- */

/* Fills in the defaults; `size` is sizeof(hf_options) where the program was compiled, and nothing
 * is written behind it. */
hf_status hf_options_init_sized(hf_options* options, size_t size);
/* Defaults, overridden by HOLDFAST_TRANSPORTS, HOLDFAST_TIMEOUT (seconds), HOLDFAST_PORT, ... The
 * strings are the environment's. */
hf_status hf_options_from_env_sized(hf_options* options, size_t size);

/* As hf_options_init_sized() for C and C++, where the name is a macro. The function is for programs
 * that were compiled before version 8, and fills the fields that hf_options had then; languages
 * without macros call the one above. */
hf_status hf_options_init(hf_options* options);
/* As hf_options_init(), but of hf_options_from_env_sized(). */
hf_status hf_options_from_env(hf_options* options);
#define hf_options_init(options) hf_options_init_sized((options), sizeof(hf_options))
#define hf_options_from_env(options) hf_options_from_env_sized((options), sizeof(hf_options))

/* Starts the runtime of this process: its thread, its sockets. `options` NULL: the defaults. */
hf_status hf_node_create(const hf_options* options, hf_node** node);
/* Where the health pages (option http) are served, "host:port" or "https://host:port", with the
 * real port; "": nowhere. Valid as long as the node. */
const char* hf_node_http_address(const hf_node* node);
/* Frees the node, after its groups. */
void hf_node_free(hf_node* node);

/* Allocates memory, not initialised, that collectives of large sizes between ranks of one host read
 * where it lies; aligned to 64 bytes. It serves every other purpose as well. It is freed by
 * hf_release(), before or after the node. */
hf_status hf_allocate(hf_node* node, size_t bytes, void** memory);
/* Frees what hf_allocate() gave. */
void hf_release(void* memory);

/* A directory that all ranks share; one directory serves one job. */
hf_status hf_store_directory(const char* path, hf_store** store);
/* A store of the caller's functions, which are called until it is freed. */
hf_status hf_store_custom(const hf_store_functions* functions, hf_store** store);
/* Frees the store, once no call uses it. */
void hf_store_free(hf_store* store);

/* Meets the other ranks; collective over them. `name` is unique within the store. */
hf_status hf_group_join(hf_node* node, hf_store* store, const char* name, int32_t rank,
                        int32_t size, hf_group** group);
/* The same with RANK, WORLD_SIZE and HOLDFAST_STORE (file:///path) from the environment, as
 * `holdfast run` sets them. */
hf_status hf_group_join_env(hf_node* node, const char* name, hf_group** group);
/* Leaves when this rank's running ops have ended, and all others have ended the ops that it has
 * ended, or left themselves; or when timeout_ns has passed. HF_NOT_MEMBER: this rank was voted out.
 * HF_UNCONFIRMED: the ranks of hf_last_error_ranks() have not answered, or were voted out and may
 * live: whether they have the same results is not known. HF_TIMEOUT: ops of this rank were running.
 */
hf_status hf_group_close(hf_group* group, int64_t timeout_ns);
/* Closes the group at once if it is still open; of several handles of a group, freeing the last one
 * does. Works of the group stay usable. */
void hf_group_free(hf_group* group);
/* Ends all running and later ops, here and (HF_PEER_LOST) on the other ranks. */
hf_status hf_group_abort(hf_group* group, const char* reason);
/* HF_OK, or why the group's view has ended. */
hf_status hf_group_health(hf_group* group);
/* The calling process's rank, 0 to hf_group_size() - 1. */
int32_t hf_group_rank(const hf_group* group);
/* Ranks of the group, those included that nobody has at the moment. */
int32_t hf_group_size(const hf_group* group);
/* Number of the current view; it grows with every loss and every newcomer. */
uint32_t hf_group_epoch(const hf_group* group);
/* Ranks that have a member in the current view: copies at most `capacity`, returns how many. */
size_t hf_group_live_ranks(const hf_group* group, int32_t* ranks, size_t capacity);
/* Sets the priority of the calls on this handle from now on, by any thread; 0 at first. Where ops
 * share a link or a core, those of higher priority go first, piece by piece; the others still get a
 * share. It concerns this rank's part of the work only: ranks may differ. */
hf_status hf_group_set_priority(hf_group* group, int32_t priority);
/* Sets what a hole means for the calls on this handle from now on, by any thread; at first as the
 * options say. All ranks set the same. */
hf_status hf_group_set_on_hole(hf_group* group, hf_on_hole on_hole);
/* A step boundary, collective over the ranks that are there: admits processes that wait to join.
 * Negative timeout_ns: the group's. */
hf_status hf_group_advance(hf_group* group, int64_t timeout_ns);
/* "shm", "tcp", "ucx" or "self"; NULL for a number that is no rank. Valid as long as the group. */
const char* hf_group_transport(const hf_group* group, int32_t rank);

/* ---- collectives ---- */

/* `output`: the elements of all ranks, combined by `op`, one by one; the same bits on all. */
hf_status hf_all_reduce(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_op op, hf_work** work);
/* The average by weights, of floating elements: the sum of weight times input over the sum of the
 * weights, in each part of the result of exactly the ranks that are in it, also after a loss.
 * `weight`: how much this rank's input counts, finite and not negative; 0: nothing, whatever the
 * input holds. Zeros, if no rank has a weight. */
hf_status hf_all_reduce_weighted(hf_group* group, const void* input, void* output, uint64_t count,
                                 hf_dtype dtype, double weight, hf_work** work);
/* The buffer of `root` goes to all. */
hf_status hf_broadcast(hf_group* group, void* buffer, uint64_t count, hf_dtype dtype, int32_t root,
                       hf_work** work);
/* As hf_all_reduce(), for the root; `output` is used there only. */
hf_status hf_reduce(hf_group* group, const void* input, void* output, uint64_t count,
                    hf_dtype dtype, hf_op op, int32_t root, hf_work** work);
/* `count` elements from each rank; `output` holds size * count. */
hf_status hf_all_gather(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_work** work);
/* counts[r] elements from rank r, one after the other in `output`. */
hf_status hf_all_gatherv(hf_group* group, const void* input, void* output, const uint64_t* counts,
                         hf_dtype dtype, hf_work** work);
/* `input` holds size * count; rank r gets the blocks r of all ranks, combined by `op`. */
hf_status hf_reduce_scatter(hf_group* group, const void* input, void* output, uint64_t count,
                            hf_dtype dtype, hf_op op, hf_work** work);
/* The average by weights, as hf_all_reduce_weighted() has it. */
hf_status hf_reduce_scatter_weighted(hf_group* group, const void* input, void* output,
                                     uint64_t count, hf_dtype dtype, double weight, hf_work** work);
/* counts[r] elements for rank r, one block after the other in `input`. */
hf_status hf_reduce_scatterv(hf_group* group, const void* input, void* output,
                             const uint64_t* counts, hf_dtype dtype, hf_op op, hf_work** work);
/* `count` elements to and from each rank. All ranks call this function, or all call the next. */
hf_status hf_all_to_all(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_work** work);
/* input_counts[r] elements to rank r, output_counts[r] from it, one block after the other. */
hf_status hf_all_to_allv(hf_group* group, const void* input, const uint64_t* input_counts,
                         void* output, const uint64_t* output_counts, hf_dtype dtype,
                         hf_work** work);
/* `count` elements from each rank; `output` (size * count) is used at the root only. */
hf_status hf_gather(hf_group* group, const void* input, void* output, uint64_t count,
                    hf_dtype dtype, int32_t root, hf_work** work);
/* `count` elements for each rank; `input` (size * count) is used at the root only. */
hf_status hf_scatter(hf_group* group, const void* input, void* output, uint64_t count,
                     hf_dtype dtype, int32_t root, hf_work** work);
/* Ends when all ranks have called it. */
hf_status hf_barrier(hf_group* group, hf_work** work);
/* Messages of one tag arrive in the order they were sent. Tags: 0 to 2147483647. */
hf_status hf_send(hf_group* group, const void* buffer, uint64_t count, hf_dtype dtype, int32_t peer,
                  uint32_t tag, hf_work** work);
/* `peer`: a rank or HF_ANY_SOURCE. `source`, unless NULL: the sender; blocking calls only. */
hf_status hf_recv(hf_group* group, void* buffer, uint64_t count, hf_dtype dtype, int32_t peer,
                  uint32_t tag, int32_t* source, hf_work** work);

/* ---- ops in flight ---- */

/* *done becomes 0 or 1. Never blocks. */
hf_status hf_work_test(hf_work* work, int* done);
/* The op's outcome; HF_TIMEOUT leaves it running. Negative timeout_ns: the op's own limit. */
hf_status hf_work_wait(hf_work* work, int64_t timeout_ns);
/* A receive's sender, once it has ended; else HF_ANY_SOURCE. */
int32_t hf_work_source(const hf_work* work);
/* What a collective's result is made of, once it has ended well; the same on every rank. */
typedef struct hf_outcome {
  uint32_t epoch;  /* of the view in which it ended */
  int32_t retried; /* 1: repaired after a loss */
} hf_outcome;
/* HF_CONFIG_ERROR: the op has not ended, or not well. */
hf_status hf_work_outcome(const hf_work* work, hf_outcome* outcome);
/* Ranks whose data is in every part of the result: copies at most `capacity`, returns how many. */
size_t hf_work_contributors(const hf_work* work, int32_t* ranks, size_t capacity);
/* Ranks whose data is in no part of the result, or not in all: copied and counted likewise. */
size_t hf_work_missing(const hf_work* work, int32_t* ranks, size_t capacity);
/* Frees the handle. The op runs on: its memory must stay until it has ended. */
void hf_work_free(hf_work* work);

#ifdef __cplusplus
}
#endif

#endif

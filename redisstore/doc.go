// Package redisstore stores runs in Redis, for any number of workers on any number of machines. It
// works with one server, a master that Sentinel monitors, or a cluster.
//
//	st, err := redisstore.Open("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//
// It requires Redis 7.0 or later. docs/use/redis.md describes the losses that each setting of the
// server permits, the costs of operations, and the permissions that a user needs. [Store.Examine]
// examines the servers and reports problems.
//
// # Partitions
//
// A store has a fixed number of partitions: 16, unless it was created with another number. All keys
// of a partition have the same hash tag, so they are in one slot of a cluster. Each operation is
// one script on one partition, which makes it atomic. The ID of a run determines its partition, and
// a workflow ID determines the partition of its runs.
//
// # Keys
//
// In this list {p} is the tag, such as {flowgen:7}1, R the ULID of a run, C a route (queue and
// workflow), S a session, and W a workflow ID:
//
//	{p}m:R  hash   metadata of a run, below
//	{p}l:R  stream its log; entry n-0 is frame n
//	{p}i:R  list   its inbox, if it is not empty
//	{p}s:R  zset   item IDs that its chain has accepted, by time; 4e15 is added to the time of
//	                IDs that are kept until they are confirmed
//	{p}n:R  hash   step data, until it ends
//	{p}j:R  list   interventions by operators (audit), the last thousand
//	{p}J:R  string the run that this start has joined, while the start may be repeated
//	{p}x:R  string tags and a long workflow ID that do not fit into the metadata
//	{p}O:R  hash   its outbox records: position, phase, time of the phase, receiver
//	{p}B:R  hash   the bodies of its outbox records
//	{p}g:R  hash   metadata of a run that was deleted and is not purged yet
//	{p}S:R  hash   the state of the streams of its chain, by name: first kept chunk, last
//	                chunk, bytes of the longest chunk, whether it is closed
//	{p}C:R:N stream the chunks of stream N of its chain; entry n-0 is chunk n
//	{p}W:R:N hash  the number of the last chunk of each step that has written to stream N
//
//	{p}r:C  zset   ready runs, by falling priority, then by a counter
//	{p}b:C  zset   blocked runs; a member is the blocking sessions, a space, and the run; all
//	                scores are 0
//	{p}p:CF zset   open runs by creation; F is c for runs with a parent, r for the others
//	{p}f:CFO zset  ended runs by creation; O is 3, 4, 5 or 6 for completed, failed, cancelled or
//	                continued runs, 0 for others
//	{p}z:S  hash   a session; fields k and n are the codes and the names of its routes
//	{p}o:S  set    the runs that session S owns
//	{p}a:S  hash   the owned runs with unread items; 1 if the session was not notified yet
//	{p}q:W  list   runs that wait for the end of the active run of workflow ID W
//	{p}P:N  zset   runs of a limiter queue, by falling priority, then by position; N is the hash
//	                of their route and uses
//	{p}F:U  zset   closed (1) and admitted (2) limiter queues that count at part U of a limit,
//	                which is its name, a zero byte and its key; a member is the position of the
//	                first run, 1 or 2, and N, and its score is the priority of that run; with two
//	                more zero bytes, the queues that use the part and do not count there
//
//	{p}X:C:P zset  passes of the fairness keys of a flow, which consists of the ready runs
//	                with such keys of a route and a priority
//
//	{p}I:G  zset   runs of failure group G, by creation
//	{p}M:N  zset   runs with a workflow ID or tag, by creation; N is its hash
//
//	{p}t    zset   timers          {p}:e    zset   leases of sessions
//	{p}A    hash   liveness and progress of background work: u how long heartbeats have arrived, h
//	                the last heartbeat; n the last search for runs that no session serves, o and O
//	                the route and rank that it reached; m the last examination of open runs, q and Q
//	                the set and the run that it reached
//	{p}w    hash   wakes by route  {p}:k    hash   names of routes
//	{p}u    hash   active runs     {p}:v    hash   the last ended run, by workflow ID; an
//	                empty value remains if that run is deleted
//	{p}d    zset   ended runs by the time from which they may be purged
//	{p}G    zset   the same for runs whose purge is held back
//	{p}D    zset   outbox records by due time
//	{p}J    hash   runs that collect starts, by key, until they end
//	{p}h    hash   number of the later runs of each chain
//	{p}T    hash   last run of each chain
//	{p}L    hash   parts of limits that are not idle: weight held, weight waited for, and the time
//	                at which the rate allows the next weight, in microseconds
//	{p}K    hash   configurations of limits, as JSON: field s with the part for a set
//	                configuration, with an empty key for all parts; c for the one that the code declares
//	{p}Y    hash   limiter queues: 0 open, 1 closed, 2 admitted; until when; the priority and
//	                the position of the first run; route and uses
//	{p}F    hash   closed and admitted limiter queues that use several limits: a bit for each use at
//	                which the queue counts, and whether it is owed; also parts of limits: the weight
//	                of the runs that wait for another limit first
//	{p}Q    hash   flows, by route, colon and priority: the number of waiting runs, the current
//	                pass, and the position of the last run whose key had no higher pass
//	{p}U    zset   runs of all failure groups, by creation
//	{p}H    hash   failure groups: when the first and when the last run was added, and how many
//	                were; then the properties of the group: kind, workflow, step and text
//	{p}E    zset   failure groups by the time when the last run was added
//	{p}Z    zset   the same for failure groups without runs
//	{p}R    zset   in partition 0, the entries: space, key and value, separated by zero bytes;
//	                all scores are 0
//	{p}c    string counter of runs that were made ready, and of outbox records
//	{p}y           the copy of a log, during one script
//	{p}-           a key that never exists: see keys.go
//	{flowgen:0}:format string format version and number of partitions; in a cluster each other
//	                partition has a copy
//
// The metadata is a hash of short values, which Redis stores in one block of memory and searches
// from the beginning. A value of more than 64 bytes would change the encoding permanently to one
// that takes four times the memory. The first field is H, the header. It is one value with the
// fence, the position, the status and the counters of the run. Its flags determine which other
// fields an operation must read. value.go describes the layout of the header. Most operations
// compare and change only this field. The other fields are:
//
//	p      data of the queue state
//	c      route
//	a      created
//	r      priority
//	w      workflow ID
//	h      chain
//	u      parent
//	x      root
//	j, J   retention
//	i      tags
//	y      until when the run is watched; with a fraction if all watchers wait for the end
//	Y      until when the streams of its chain are followed
//	B      the outbox record that created it
//	N      the run that it continues
//	F      the sessions that have blocked it
//	k      the key for which it collects starts until it is claimed
//	V      one digit each: it has its permits, keeps them to its end, was called off; then its
//	       position, and since when it waits
//	U-U3   the limits that it uses
//	f      its share and its fairness key
//	g      its failure group
//
// The position in V also orders a run with a fairness key among the ready runs. A run that waits
// for permits is in no ready set. Instead, the set contains the limiter queue of the run, as a
// tilde and N, unless claims skip the queue. If the queue has a due time, it is among the timers.
//
// Routes and sessions have computed hashes as names. Therefore a claim needs no lookup, and no name
// is assigned twice after a failover.
//
// # Logs
//
// A log is a stream with one entry per commit. The script of a commit compares the fence and the
// position with the header. It appends under an explicit ID, so that a commit whose answer was lost
// can be repeated. Two short scripts carry out nearly all commits. In all other cases they report
// that they have changed nothing, and the store calls the long script.
//
// A request with three or more such commits, or creations, executes them by script batch, in one
// command: for each partition in a cluster, otherwise for all. The operations of a batch are those
// of the short scripts and of the creation, and each affects only its own run. A batch executes the
// commands on an index as one command.
//
// A stream takes 4 KiB with its first entry. Scripts that park or end a run replace it by a copy,
// which takes only the bytes that it needs. Scripts that create a run do the same if the run is not
// claimed soon. This is the case if the run starts later, if it is queued after another run, or if
// more than a hundred runs of its route are ready. The store reads logs by XRANGE, in one
// transaction with the metadata. Scripts read no logs, with one exception: a claim returns the log
// of a run that has only a short first frame. This costs the server 2 µs more than a separate read,
// and saves six commands.
//
// # Outbox
//
// A commit that sends outbox records writes the body of each record into one hash of the sender,
// and its phase into another hash. The phase takes only a few bytes, and a change of the phase
// copies no body. A counter determines the position of a record among all records. The position is
// part of the name of the record in the set of records by due time. A commit without outbox records
// accesses none of these keys.
//
// # Streams
//
// The streams of a chain are stored under the ID of its first run, which is purged last. The script
// of a commit writes them in the same action as the frame. A commit without publications accesses
// none of their keys. The chunks of a stream are a Redis stream. The rest of its state is one short
// value, so that an append reads no chunk. Steps write by a separate script, under the fence of the
// run. To read a page, the store reads the state of the stream, and then as many chunks as fit into
// 4 MiB, whatever their sizes.
//
// # Waiting
//
// No operation polls. Scripts publish the routes for which they make runs ready, and the runs with
// unread items. A process listens on one connection for all its waiting calls, and takes a wake by
// a script, so that each wake goes to one worker. Published messages may be lost. Therefore the
// process rechecks after each new connection, and a Wait ends after five seconds. Commits publish
// messages only for watched runs and followed streams, to all processes that watch or follow them.
// No command blocks on the server, so the store never has to interrupt a command.
//
// # Lost answers
//
// By default, go-redis repeats a command whose answer is lost. The store disables this for scripts.
// The caller may repeat a commit, a delivery, a creation, a mark and a publication of a step, and
// each takes effect once. If a cluster reports that a partition has moved, the script was not
// executed, and the client follows the redirection. While the keys of a partition are being moved,
// its operations fail, and the caller repeats them.
//
// # Time
//
// Scripts read the clock of the server. [Store.Clock] estimates that clock from the answers of the
// server, so the clocks of the workers may differ by any amount. The servers of a cluster should
// agree within milliseconds: the timers of a partition fire by the clock of its server.
//
// # Reading order
//
// keys.go contains the names of the keys. value.go contains the header of a run, which nearly every
// operation uses, and the other packed values. open.go and url.go contain the Store. script.go builds
// the scripts and lists the first words of their answers, send.go sends them, errors.go converts their
// errors, and pubsub.go receives notifications. Each of the other files has one subject, and the same name as in the other stores: create.go, session.go, claim.go,
// commit.go, outbox.go, load.go, wait.go, stream.go, list.go, limit.go, failuregroup.go (failure
// groups), entry.go, stepdata.go and purge.go. inspect.go and snapshot.go read a partition;
// state.go, defect.go, defect_limit.go and rebuild.go serve package fsck. Directory lua has one
// file per operation, with common functions in lua/part. Package doctor examines the servers.
package redisstore

// Package redisstore keeps runs in Redis: for any number of workers on any number
// of machines, on one server, a group that Sentinel watches, or a cluster.
//
//	st, err := redisstore.Open("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//
// It needs Redis 7.0 or later. docs/use/redis.md says what each setting of
// the server can lose, what operations cost, and which permissions a user
// needs. [Store.Examine] looks at the servers and says what should be corrected.
//
// # Partitions
//
// A store has a fixed number of partitions, 16 unless it was made with another
// one. Everything of a partition has one hash tag in the names of its keys, so it
// is in one slot of a cluster, and each operation is one script on one
// partition: it happens as a whole or not at all. A run is in the partition that
// its id says, and a workflow id decides the partition of its runs.
//
// # Keys
//
// With {p} for the tag, such as {flowgen:7}1, R for the ULID of a run, C for a
// route (queue and workflow), S for a session, and W for a workflow id:
//
//	{p}m:R  hash   metadata of a run, below
//	{p}l:R  stream its log: entry n-0 is frame n
//	{p}i:R  list   its inbox, while there is something in it
//	{p}s:R  zset   ids that its chain has accepted, by time; to that of ids that are
//	                kept until they are confirmed 4e15 is added
//	{p}n:R  hash   data of its steps, until it ends
//	{p}j:R  list   interventions from outside (audit), the last thousand
//	{p}J:R  string the run that this start has joined, while it may be sent again
//	{p}x:R  string tags and a long workflow id that do not fit into the metadata
//	{p}O:R  hash   its records in the outbox: place, phase, since when, receiver
//	{p}B:R  hash   the bodies of these
//	{p}g:R  hash   metadata of a run that was deleted and is not yet purged
//	{p}S:R  hash   the state of the streams of its chain, by name: first chunk that is
//	                kept, last one, bytes of the longest, whether it is closed
//	{p}C:R:N stream the chunks of the stream N of its chain: entry n-0 is chunk n
//	{p}W:R:N hash  the steps that have written to it: the number of the last chunk of each
//
//	{p}r:C  zset   ready runs, by falling priority, then by a counter
//	{p}b:C  zset   blocked runs by the sessions that have blocked them: those, a space,
//	                and the run; all scores are 0
//	{p}p:CF zset   open runs by their creation; F is c for those with a parent, r for the others
//	{p}f:CFO zset  done runs by their creation; O is 3, 4, 5 or 6 for those that have completed, failed,
//	                were cancelled or have continued, 0 for others
//	{p}z:S  hash   a session; k and n are the codes and the names of the routes that it serves
//	{p}o:S  set    runs that it owns
//	{p}a:S  hash   those with unread items; 1: it has not been told
//	{p}q:W  list   runs that wait for the end of the active one
//	{p}P:N  zset   runs of a line for permits, by falling priority, then by their places; N is
//	                the hash of their route and what they use
//	{p}F:U  zset   closed lines, shut or called ones, that count at a part of a limit, its name, a
//	                zero byte and its key: the place of the first run, 1 or 2, and N, by its
//	                priority; with two more zero bytes the ones that use the part and do not count there
//
//	{p}X:C:P zset  passes of the fair keys of a flow, the ready runs of a route and a priority
//	                that have such keys
//
//	{p}I:G  zset   runs of the group of trouble G, by their creation
//	{p}M:N  zset   runs that have a label, by their creation: of their workflow id or of a tag N is the hash
//
//	{p}t    zset   timers          {p}:e    zset   leases of sessions
//	{p}A    hash   u for how long sessions were heard, h when the last one was; n when one
//	                looked for runs that nobody serves, o and O the route and rank it came to; m when one
//	                examined open runs, q and Q the set and the run it came to
//	{p}w    hash   wakes by route  {p}:k    hash   names of routes
//	{p}u    hash   active runs     {p}:v    hash   runs that ended last, by workflow id; an
//	                empty field keeps it when the last of them is deleted
//	{p}d    zset   done runs by the time when they may be purged
//	{p}G    zset   the same of those that something holds back
//	{p}D    zset   records of the outbox by due time
//	{p}J    hash   runs that gather starts, by key, until they end
//	{p}h    hash   later runs of chains, counted
//	{p}T    hash   last runs of chains
//	{p}L    hash   parts of limits that are not idle: weights held, weights waited for, and
//	                when the next one comes by the rate, in microseconds
//	{p}K    hash   configurations of limits, as JSON: s and the part for what was set, an
//	                empty key for all of them, c for what the code declares
//	{p}Y    hash   lines: 0 open, 1 shut, 2 called; until when; the turn of the first run, its
//	                priority and place; route, and what is used
//	{p}F    hash   closed lines that use several limits: a bit for each use at which the line counts,
//	                and whether it is owed; and parts of limits: the weights of the runs that wait for
//	                another limit first
//	{p}Q    hash   flows, by route, colon and priority: how many runs wait, the present pass,
//	                and the place of the last run whose key had no higher one
//	{p}U    zset   runs of all groups of trouble, by their creation
//	{p}H    hash   groups of trouble: when the first run has come into each, when the last one, and how often
//	                one has; then what is common to them: kind, workflow, step and text
//	{p}E    zset   groups by the time when the last run has come into them
//	{p}Z    zset   the same of those in which there is no run now
//	{p}N    zset   in partition 0 the journal of operators: ids of 28 digits, each with its entry as JSON; all
//	                scores are 0
//	{p}V    hash   in partition 0 the catalogue: what builds say of each workflow, as JSON
//	{p}c    string counter of runs that were made ready, and of records
//	{p}y           the copy of a log, within a script
//	{p}-           a key that never exists: see keys.go
//	{flowgen:0}:views hash the views that operators share, by name, each as JSON: see keys.go
//	{flowgen:7}:format in partition 0, in a cluster with copies in the others: format version and number of partitions
//
// Metadata is a hash of short values, which Redis keeps in one piece of memory and
// goes through from the beginning; a value of more than 64 bytes would make it four
// times as large for good. Its first field is H, the header: one value with the fence,
// the position, the status and the counters of the run, and with flags that say which
// of the other fields an operation must read. value.go has its layout. So
// most operations compare and change one field. The others are p the data of the
// queue state, c route, a created, r priority, w workflow id, h chain, u parent, x root,
// j and J retention, i tags, y until when the run is watched, Y until when
// the streams of its chain are followed, B the record that created it, N the run that it
// continued as, F the sessions that have blocked it, k the key of which it gathers starts until it is claimed, V whether it has its permits, keeps
// them to its end, and was called off, a digit each, its place in line, and since when it waits, U to U3 what
// limits it uses, f its share and its fair key, g its group of trouble. The place is where a run with a fair key stands
// among the ready ones. A run that waits for permits is in no ready set: its line is, as a tilde and
// N, while claims look at it; its time, if it has one, is among the timers.
//
// Routes and sessions are named by hashes, which are computed: nothing has to be
// looked up to claim, and no name is given out twice after a failover.
//
// # Logs
//
// A log is a stream with one entry per commit. The script of a commit compares
// the fence and the position with the header and appends under an explicit id,
// so that a commit whose answer was lost can be repeated. Two short
// scripts do that for nearly all commits; if they find anything else, they say so and
// the long one is called. A
// stream takes 4 KiB with its first entry; scripts that park or end a run put a copy
// in its place, which takes only the bytes it needs, and so do those that create one, if
// it is not claimed soon: it starts later, is queued after another one, or more than a
// hundred runs of its route are ready. Logs are read by XRANGE, in one transaction with the metadata.
// Scripts do not read them, but for one case: a claim hands over the log of a run that
// has nothing but a short first frame. That takes the server 2 µs more than if the
// session asked for it, and saves six commands.
//
// # Outbox
//
// A commit that sends something writes the body of each record into one hash of
// the sender, and its phase into another one, in few bytes, so that a change of the
// phase copies no body. The position of a record among all is counted, and is
// part of its name in the set of records by due time. A
// commit that sends nothing touches none of it.
//
// # Streams
//
// The streams of a chain are kept under the id of its first run, which is purged last.
// They are written by the script of the commit, in the same action as the frame; a
// commit that publishes nothing touches none of it. The chunks of a stream are a Stream
// of the server; the rest of its state is one short value, so that nothing is
// read in order to append. Steps write by a script of their own, under the fence of the
// run. To read a page, the store reads the state of the stream, and then as many chunks as
// fit into 4 MiB, whatever their sizes.
//
// # Waiting
//
// Nothing polls. Scripts publish which routes they make ready, and which runs have
// unread items; a process listens on one connection, however many calls wait in it, and
// takes a wake by a script, so that each goes to one worker. Published messages may be
// lost; so the process looks again after each new connection, and a Wait ends after five
// seconds. Commits publish only for runs that are watched, and for streams that are
// followed, to all who watch or follow them. No command blocks on the server,
// so nothing has to be interrupted.
//
// # Lost answers
//
// go-redis repeats commands whose answers are lost; scripts are sent so that it
// does not. A commit, a delivery, a creation, a mark and a publication of a step may be
// repeated by the caller and happen once. A cluster that says that a partition has moved
// has executed nothing, and the client follows it by itself. While a partition is being
// moved, key by key, its operations fail and are repeated by the caller.
//
// # Time
//
// Scripts read the clock of the server. [Store.Clock] is that clock, as its
// answers show it: the clocks of the workers may differ by any amount. Servers of
// a cluster should agree to within milliseconds; timers of a partition fire by
// the clock of its server.
//
// # Reading order
//
// keys.go has the names of the keys, value.go the header of a run, which is the state that
// nearly every operation uses, and the other packed values. open.go and url.go have the Store,
// script.go and send.go build and send scripts, errors.go explains their failures, and pubsub.go
// receives notifications. Then one file per subject, named as in the other stores: create.go,
// session.go, claim.go, commit.go, outbox.go, load.go, wait.go, stream.go, list.go, limit.go,
// trouble.go, journal.go, catalog.go, view.go, stepdata.go, purge.go and import.go. inspect.go
// and snapshot.go read a partition; state.go, defect.go, defect_limit.go and rebuild.go serve
// package fsck. lua has one file per operation, with common functions in lua/part. Package
// doctor examines the servers.
package redisstore

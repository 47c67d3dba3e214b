-- Finish is the fast path of Commit for the most frequent end of a run: a last frame, an empty
-- inbox, no workflow ID, no step data, nothing to send or publish, no followers of its streams, and
-- nothing that holds back its purge. If a guard of Commit would refuse the request, or if there is
-- more to do, it writes nothing and the caller executes Commit.
-- It mirrors Commit of package protocol.
--
-- It is separate from Append. They have in common the guard and the XADD: Append reads one field,
-- takes three commands and needs only its two keys; Finish reads three fields, moves the run in
-- four indexes and compacts its log, with ten commands. A common script would be two paths with one
-- guard, in the script that is executed most often. Commit would take sixteen commands to end such
-- a run, and three times the arguments.
--
-- KEYS  1 metadata  2 log
-- ARGV  1 now  2 the expected beginning of the header: no workflow ID, the fence and the log
--       position  3 its new beginning, including the status  4 frame  5 minimum retention
--       6 retention of a run that does not set its own
--
-- Returns the number of frames; 0 if the caller must execute Commit.
--
-- Atomic, because the fence and the log position are compared, the frame is appended, and the run
-- is removed from all indexes of open runs in one action. A repeated request finds a run without an
-- owner, and Commit then reports that an earlier attempt wrote the frame. The keys of the indexes
-- are built, since constant keys need not be sent. An index that was overwritten is skipped: the
-- script that reads it reports it, and a repair writes it again.
--
-- Parts: tag intact clock compact sets index

local meta, guard, frame = KEYS[1], ARGV[2], ARGV[4]
local m = redis.call('HMGET', meta, 'H', 'p', 'a', 'c', 'u')
local header = m[1]
if not header or string.sub(header, 1, 49) ~= guard then
  return 0
end
local flags, _, n, bytes = struct.unpack('>BHI4I6', header, 51)
if bit.band(flags, 53) ~= 0 then -- the run has unread items, more work at its end, or blockers, or it is closing
  return 0
end
n, bytes = n + 1, bytes + #frame
local run, now, at = string.sub(meta, #tag + 3), clock(ARGV[1])
redis.call('XADD', KEYS[2], string.format('%d-0', n), 'f', frame)
redis.call('HSET', meta, 'H', ARGV[3] .. struct.pack('>BHI4I6', bit.band(flags, 136), 0, n, bytes), 'p', at)
if flags >= 128 then
  -- Part: header ready limit limiter_queue
  give_back(run, nil, true)
end
index('SREM', tag .. 'o:' .. m[2], run)
index('ZREM', open_runs(m[4], m[5]), run)
index('ZADD', done_runs(m[4], m[5], ARGV[3]), m[3], run)
local retention = flags % 16 >= 8 and redis.call('HGET', meta, 'j') or ARGV[6]
index('ZADD', tag .. 'd', string.format('%d', math.max(math.max(now, m[3]) + ARGV[5], now + retention)), run)
if flags % 4 >= 2 then
  -- Part: watch
  notify_watchers(run, n, true)
  redis.call('HDEL', meta, 'y')
end
compact(run, bytes)
return n

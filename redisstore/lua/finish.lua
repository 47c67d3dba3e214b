-- Finish is Commit for how nearly all runs end: with a last frame, an empty inbox, no
-- workflow id, no step data, nothing to send or publish, nobody who follows its streams, and
-- nothing that holds the run back from being purged.
-- It does that and nothing else; where a guard of Commit would refuse, or where there
-- is more to do, it writes nothing, and Commit is asked.
-- It mirrors Commit of package protocol.
--
-- It stands beside Append and is no branch of it. They have in common the guard and the XADD: Append
-- reads one field, takes three commands, and needs no key but its two; this one reads three fields, moves
-- the run in four indexes and compacts its log with ten. A common script would be two paths with one
-- guard, in the script that runs most often. Commit would take sixteen commands to end such
-- a run, and three times the arguments.
--
-- KEYS  1 metadata  2 log
-- ARGV  1 now  2 what the header must begin with: no workflow id, the fence and the position
--       3 what it begins with then, and the status  4 frame
--       5 how long a run is kept at least  6 how long if it does not say
--
-- Returns the number of frames; 0: Commit is to be asked.
--
-- Atomic, because the fence and the position are compared, the frame appended, and
-- the run taken out of everything but the log in one action. Sent again it finds a
-- run without an owner, and Commit says that it was written by an earlier try. The keys
-- of the indexes are built: nobody sends what never changes. An index that somebody has
-- overwritten is left out: whoever reads it tells, and a repair writes it again.
--
-- Parts: tag intact clock compact sets

local meta, guard, frame = KEYS[1], ARGV[2], ARGV[4]
local m = redis.call('HMGET', meta, 'H', 'p', 'a', 'c', 'u')
local header = m[1]
if not header or string.sub(header, 1, 49) ~= guard then
  return 0
end
local flags, _, n, bytes = struct.unpack('>BHI4I6', header, 51)
if bit.band(flags, 53) ~= 0 then -- there are unread items, more to be done at its end, it is closing, or it was incompatible with a session
  return 0
end
n, bytes = n + 1, bytes + #frame
local run, now, at = string.sub(meta, #tag + 3), clock(ARGV[1])
redis.call('XADD', KEYS[2], string.format('%d-0', n), 'f', frame)
redis.call('HSET', meta, 'H', ARGV[3] .. struct.pack('>BHI4I6', bit.band(flags, 136), 0, n, bytes), 'p', at)
if flags >= 128 then
  -- Part: header ready limit line
  give_back(run, nil, true)
end
intact('SREM', tag .. 'o:' .. m[2], run)
intact('ZREM', open_runs(m[4], m[5]), run)
intact('ZADD', done_runs(m[4], m[5], ARGV[3]), m[3], run)
local retention = flags % 16 >= 8 and redis.call('HGET', meta, 'j') or ARGV[6]
intact('ZADD', tag .. 'd', string.format('%d', math.max(math.max(now, m[3]) + ARGV[5], now + retention)), run)
if flags % 4 >= 2 then
  -- Part: watch
  tell_watchers(run, n .. ' end')
  redis.call('HDEL', meta, 'y')
end
compact(run, bytes)
return n

-- Finish is Commit for how nearly all runs end: with a last frame, an empty inbox, no
-- workflow id, nothing to send or publish, nobody who follows its streams, and nothing
-- that holds the run back from being purged.
-- It does that and nothing else; where a guard of Commit would refuse, or where there
-- is more to do, it writes nothing, and Commit is asked.
--
-- KEYS  1 metadata  2 log  3 inbox  4 notes  5 open runs  6 done runs
--       7 purge times  8 records of the run
-- ARGV  1 now  2 run  3 epoch  4 token  5 cid of the frame before  6 frame  7 cid
--       8 first event  9 last event  10 status
--       11 how long a run is kept at least  12 how long if it does not say
--       13 the channel of the log
--
-- Returns the number of frames; 0: Commit is to be asked.
--
-- Atomic, because the fence and the position are compared, the frame appended, and
-- the run taken out of everything but the log in one action. Sent again it finds a
-- run without an owner, and Commit says that it was written by an earlier try.
--
-- Parts: tag clock compact

local meta, run = KEYS[1], ARGV[2]
local m = redis.call('HMGET', meta, 'l', 'e', 't', 'q', 'n', 'w', 'g', 'a', 'j', 'B', 'o', 'y', 'Y')
if m[1] ~= ARGV[5] or m[2] ~= ARGV[3] or m[3] ~= ARGV[4] or m[6] or m[10] or m[13]
  or tonumber(ARGV[8]) ~= m[4] + 1 or redis.call('EXISTS', KEYS[3], KEYS[8]) > 0 then
  return 0
end
local n, frame, now = m[5] + 1, ARGV[6], clock(ARGV[1])
local bytes = m[7] + #frame
redis.call('XADD', KEYS[2], n .. '-0', 'f', frame)
redis.call('HSET', meta, 'l', ARGV[7], 'q', ARGV[9], 'n', n, 'g', bytes, 's', ARGV[10], 'p', 6, 'b', now)
redis.call('HDEL', meta, 't', 'o', 'v', 'z', 'y')
redis.call('SREM', tag .. 'o:' .. m[11], run)
redis.call('DEL', KEYS[4])
redis.call('ZREM', KEYS[5], run)
redis.call('ZADD', KEYS[6], 0, run)
redis.call('ZADD', KEYS[7], math.max(math.max(now, m[8]) + ARGV[11], now + (m[9] or ARGV[12])), run)
if m[12] and tonumber(redis.call('TIME')[1]) < tonumber(m[12]) then
  redis.call('PUBLISH', ARGV[13], n)
end
compact(run, bytes)
return n

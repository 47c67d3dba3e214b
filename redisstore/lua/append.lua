-- Append is Commit for what nearly all commits are: a frame of a run that stays
-- owned, with nothing to consume, to send or to publish. It does that and nothing
-- else; where a guard of Commit would refuse, or where there is more to do, it
-- writes nothing, and Commit is asked.
--
-- KEYS  1 metadata  2 log  3 inbox
-- ARGV  1 epoch  2 token  3 cid of the frame before  4 frame  5 cid
--       6 first event  7 last event  8 workflow id as a key, or ''
--       9 status, or ''  10 'p' for progress  11 the channel of the log
--
-- Returns twice the number of frames, and one more if there is mail; 0: Commit is to
-- be asked.
--
-- Atomic, because the fence and the position are compared and the frame appended in
-- one action. Sent again it finds another frame at the end, and Commit says that it
-- was written by an earlier try.
--
-- Parts: none

local m = redis.call('HMGET', KEYS[1], 'l', 'e', 't', 'q', 'n', 'w', 'g', 's', 'v', 'z', 'y')
if m[1] ~= ARGV[3] or m[2] ~= ARGV[1] or m[3] ~= ARGV[2] or (m[6] or '') ~= ARGV[8] or m[10] or tonumber(ARGV[6]) ~= m[4] + 1 then
  return 0
end
local n, frame = m[5] + 1, ARGV[4]
redis.call('XADD', KEYS[2], n .. '-0', 'f', frame)
if ARGV[9] == '' or ARGV[9] == m[8] then
  redis.call('HSET', KEYS[1], 'l', ARGV[5], 'q', ARGV[7], 'n', n, 'g', m[7] + #frame)
else
  redis.call('HSET', KEYS[1], 'l', ARGV[5], 'q', ARGV[7], 'n', n, 'g', m[7] + #frame, 's', ARGV[9])
end
if m[9] and ARGV[10] == 'p' then
  redis.call('HDEL', KEYS[1], 'v')
end
if m[11] then
  if tonumber(redis.call('TIME')[1]) < tonumber(m[11]) then
    redis.call('PUBLISH', ARGV[11], n)
  else
    redis.call('HDEL', KEYS[1], 'y')
  end
end
return 2 * n + redis.call('EXISTS', KEYS[3])

-- Append is Commit for what nearly all commits are: a frame of a run that stays
-- owned, with nothing to consume, to send or to publish. It does that and nothing
-- else; where a guard of Commit would refuse, or where there is more to do, it
-- writes nothing, and Commit is asked.
-- It mirrors Commit of package protocol.
--
-- KEYS  1 metadata  2 log
-- ARGV  1 what the header must begin with: the workflow id, the fence and the position
--       2 what it begins with then, and the status, if that changes  3 frame
--       4 'p' for progress
--
-- Returns twice the number of frames, and one more if there are unread items; 0: Commit is to
-- be asked.
--
-- Atomic, because the fence and the position are compared and the frame appended in
-- one action. Sent again it finds another frame at the end, and Commit says that it
-- was written by an earlier try.
--
-- Parts: none

local header, guard, after, frame = redis.call('HGET', KEYS[1], 'H'), ARGV[1], ARGV[2], ARGV[3]
if not header or string.sub(header, 1, 49) ~= guard then
  return 0
end
local flags, recoveries, n, bytes = struct.unpack('>BHI4I6', header, 51)
if bit.band(flags, 80) ~= 0 then -- its senders come later: no more, from now on; or it is exempt
  return 0
end
n = n + 1
redis.call('XADD', KEYS[2], string.format('%d-0', n), 'f', frame)
if flags % 4 >= 2 then
  -- Part: tag watch
  if not tell_watchers(string.sub(KEYS[1], #tag + 3), n) then
    flags = flags - 2
  end
end
redis.call('HSET', KEYS[1], 'H', after .. string.sub(header, #after + 1, 50)
  .. struct.pack('>BHI4I6', flags, ARGV[4] == 'p' and 0 or recoveries, n, bytes + #frame))
return 2 * n + flags % 2

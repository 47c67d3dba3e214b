-- Append is the fast path of Commit for the most frequent commit: a frame of a run that stays
-- owned, with no items to consume and nothing to send or publish. If a guard of Commit would refuse
-- the request, or if there is more to do, it writes nothing and the caller executes Commit.
-- It mirrors Commit of package protocol.
--
-- KEYS  1 metadata  2 log
-- ARGV  1 the expected beginning of the header: workflow ID, fence and log position  2 its new
--       beginning, including the status if that changes  3 frame  4 'p' for progress
--
-- Returns twice the number of frames, plus one if there are unread items; 0 if the caller must
-- execute Commit.
--
-- Atomic, because the fence and the log position are compared and the frame is appended in one
-- action. A repeated request finds another frame at the end, and Commit then reports that an
-- earlier attempt wrote it.
--
-- Parts: none

local header, guard, after, frame = redis.call('HGET', KEYS[1], 'H'), ARGV[1], ARGV[2], ARGV[3]
if not header or string.sub(header, 1, 49) ~= guard then
  return 0
end
local flags, recoveries, n, bytes = struct.unpack('>BHI4I6', header, 51)
if bit.band(flags, 80) ~= 0 then -- the commit ends the closing state, or the run is exempt
  return 0
end
n = n + 1
redis.call('XADD', KEYS[2], string.format('%d-0', n), 'f', frame)
if flags % 4 >= 2 then
  -- Part: tag watch
  if not notify_watchers(string.sub(KEYS[1], #tag + 3), n) then
    flags = flags - 2
  end
end
redis.call('HSET', KEYS[1], 'H', after .. string.sub(header, #after + 1, 50)
  .. struct.pack('>BHI4I6', flags, ARGV[4] == 'p' and 0 or recoveries, n, bytes + #frame))
return 2 * n + flags % 2

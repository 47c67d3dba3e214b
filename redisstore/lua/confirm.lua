-- Confirm removes a record from a run or its chain, after the sender has stopped sending it.
-- It mirrors Confirm of package protocol.
--
-- KEYS  1 metadata  2 metadata of a hidden run
-- ARGV  1 run  2 record
--
-- Returns 1 if the run exists, else 0.
--
-- Atomic, because a run whose purge the record held back must be scheduled for purging in the same
-- action.
--
-- Parts: tag intact kept remembered reschedule

for _, meta in ipairs({KEYS[1], KEYS[2]}) do
  local m = redis.call('HMGET', meta, 'H', 'h', 'B')
  if m[1] then
    unkeep(ARGV[1], ARGV[2])
    if m[3] == ARGV[2] then
      redis.call('HDEL', meta, 'B')
    end
    reschedule(ARGV[1])
    if m[2] then
      unkeep(m[2], ARGV[2])
      reschedule(m[2])
    end
    return 1
  end
end
return 0

-- Reconcile returns the runs that a session owns.
--
-- KEYS  1 the session  2 its runs
-- ARGV  none
--
-- Returns {'expired'} or {'ok', run, header, …}.
--
-- Atomic, because the fences must be those under which the session owns the runs. The keys of the
-- runs are built because the runs are found here.
--
-- Parts: tag intact header

local s = redis.call('HMGET', KEYS[1], 'i', 'r')
if not s[1] or s[2] then
  return {'expired'}
end
local answer = {'ok'}
for _, run in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local header = intact('HGET', tag .. 'm:' .. run, 'H')
  if queue_state_of(header) == '2' then
    table.insert(answer, run)
    table.insert(answer, header)
  end
end
return answer

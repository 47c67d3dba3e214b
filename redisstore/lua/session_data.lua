-- SessionData returns the data of the sessions of the partition.
--
-- KEYS  1 leases
-- ARGV  none
--
-- Returns {number of sessions with data, session, …, overwritten key, …}. A session is {its ID,
-- worker, time to live, fingerprint, '', 'r' if it is being recovered, end of its lease, its data}.
--
-- Atomic, because the keys of the sessions are built: the sessions are found here.
--
-- Parts: tag intact

local answer = {0}
local leases = intact('ZRANGE', KEYS[1], '0', '-1', 'WITHSCORES') or {}
for i = 1, #leases, 2 do
  local s = intact('HMGET', tag .. 'z:' .. leases[i], 'i', 'w', 'l', 'f', 'r', 'd') or {}
  if s[1] and s[6] then
    answer[#answer + 1] = {
      s[1], s[2] or '', s[3] or '', s[4] or '', '', s[5] and 'r' or '', leases[i + 1], s[6],
    }
  end
end
answer[1] = #answer - 1
return notified(answer)

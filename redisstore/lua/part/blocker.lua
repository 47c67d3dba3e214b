-- add_blocker adds a session to the blockers of a run. It removes blockers whose session has ended
-- and blockers with the same code. It returns the resulting list, and the header with the flag for
-- the list.
local function add_blocker(run, header, session)
  local meta = tag .. 'm:' .. run
  local before, code, now = redis.call('HGET', meta, 'F') or '', code_of(session), ''
  for i = 1, #before, 16 do
    local other = string.sub(before, i, i + 15)
    local theirs = code_of(other)
    if theirs and theirs ~= code then
      now = now .. other
    end
  end
  now = now .. session
  redis.call('HSET', meta, 'F', now)
  return now, with_flag(header, has_incompatible, true)
end

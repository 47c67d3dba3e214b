-- The sessions that have blocked a run are field F of its metadata, in the order in which
-- they did: 16 bytes each.

-- code_of returns the fingerprint of what a session runs; nil: it is over.
local function code_of(session)
  local s = intact('HMGET', tag .. 'z:' .. session, 'f', 'r') or {}
  return s[1] and not s[2] and s[1] or nil
end

-- blocked_by reports whether one of these sessions lives and has this code.
local function blocked_by(sessions, code)
  for i = 1, #sessions, 16 do
    if code_of(string.sub(sessions, i, i + 15)) == code then
      return true
    end
  end
  return false
end

-- block puts a run among the blocked ones of its route, which are sorted by who has blocked
-- them: so that a claim looks once at each such text, however many runs have it. It tells
-- all who wait for the route. The caller takes the run out of its former queue state.
local function block(run, header, route, sessions)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '4'), 'p', '')
  intact('ZADD', tag .. 'b:' .. route, '0', sessions .. ' ' .. run)
  redis.call('PUBLISH', tag .. 'hint', 'b' .. route)
end

-- Field F of the metadata of a run lists the sessions that have blocked it in that order, 16 bytes
-- each.

-- code_of returns the fingerprint of the code of a session. It returns nil if the session has
-- ended.
local function code_of(session)
  local s = intact('HMGET', tag .. 'z:' .. session, 'f', 'r') or {}
  return s[1] and not s[2] and s[1] or nil
end

-- blocked_by reports whether any of the sessions is alive and has the given code.
local function blocked_by(sessions, code)
  for i = 1, #sessions, 16 do
    if code_of(string.sub(sessions, i, i + 15)) == code then
      return true
    end
  end
  return false
end

-- block puts a run into the blocked set of its route and notifies all sessions that wait for the
-- route. The set is sorted by the list of blocking sessions, so that a claim examines each list
-- only once, however many runs have it. The caller must remove the run from its former queue state.
local function block(run, header, route, sessions)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '4'), 'p', '')
  intact('ZADD', tag .. 'b:' .. route, '0', sessions .. ' ' .. run)
  redis.call('PUBLISH', tag .. 'hint', 'b' .. route)
end

-- recover takes up to limit runs from a session, in the name of the session by,
-- and forgets the session once it has none left. From the first call on the
-- session is over: its heartbeats are refused. The fences change here, not at
-- the next claim. It returns how many runs it took.
local function recover(session, by, reason, now, limit)
  local state, owned = tag .. 'z:' .. session, tag .. 'o:' .. session
  redis.call('HSET', state, 'r', '1')
  local owner = redis.call('HGET', state, 'i') or ''
  local taken = 0
  for _, run in ipairs(redis.call('SRANDMEMBER', owned, limit)) do
    local meta = tag .. 'm:' .. run
    local m = redis.call('HMGET', meta, 'p', 'o', 'e', 'v', 's', 'c', 'r')
    if m[1] == '2' and m[2] == session then
      leave_owner(run, session)
      redis.call('HSET', meta, 'e', m[3] + 1, 'v', (m[4] or 0) + 1)
      redis.call('RPUSH', tag .. 'j:' .. run, cjson.encode({
        t = string.format('%.0f', now), w = reason, b = by, o = owner, p = m[1], s = m[5], e = m[3],
      }))
      redis.call('LTRIM', tag .. 'j:' .. run, -1000, -1)
      make_ready(run, m[6], m[7])
    else -- it is not of this session, whatever the set says
      redis.call('SREM', owned, run)
      redis.call('HDEL', tag .. 'a:' .. session, run)
    end
    taken = taken + 1
  end
  if redis.call('SCARD', owned) == 0 then
    redis.call('DEL', state, tag .. 'a:' .. session)
    redis.call('ZREM', tag .. 'e', session)
  end
  return taken
end

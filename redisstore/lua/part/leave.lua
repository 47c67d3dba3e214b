-- leave_owner takes a run from the session that owns it.
local function leave_owner(run, session)
  redis.call('HDEL', tag .. 'm:' .. run, 't', 'o')
  redis.call('SREM', tag .. 'o:' .. session, run)
  redis.call('HDEL', tag .. 'a:' .. session, run)
end

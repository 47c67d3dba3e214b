-- leave_owner takes a run from the session that owns it, before the run gets its new
-- place.
local function leave_owner(run, session)
  redis.call('HDEL', tag .. 'm:' .. run, 't', 'o', 'k')
  redis.call('SREM', tag .. 'o:' .. session, run)
  redis.call('HDEL', tag .. 'a:' .. session, run)
end

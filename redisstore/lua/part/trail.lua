-- trail adds an entry to the audit trail of a run; m holds the fields p, s and e of
-- the run as it was, and owner is the id of the session that owned it.
local function trail(run, reason, by, owner, now, m)
  redis.call('RPUSH', tag .. 'j:' .. run, cjson.encode({
    t = string.format('%.0f', now), w = reason, b = by, o = owner or '', p = m[1] or '', s = m[2] or '', e = m[3] or '',
  }))
  redis.call('LTRIM', tag .. 'j:' .. run, -1000, -1)
end

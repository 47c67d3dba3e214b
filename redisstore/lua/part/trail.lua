-- trail adds an entry to the audit trail of a run that had a head, or none; owner is the
-- id of the session that owned it. A trail that was overwritten is left as it is.
local function trail(run, reason, by, owner, now, head)
  local place = queue_state_of(head)
  local added = intact('RPUSH', tag .. 'j:' .. run, cjson.encode({
    t = string.format('%.0f', now), w = reason, b = by, o = owner or '', p = place or '',
    s = place and string.byte(head, 50) or 0, e = place and string.format('%08x%08x', struct.unpack('>I4I4', head, 18)) or '',
  }))
  if added then
    redis.call('LTRIM', tag .. 'j:' .. run, -1000, -1)
  end
end

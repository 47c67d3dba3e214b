-- trail adds an entry to the audit trail of a run that had a header, or none; owner is the
-- id of the session that owned it. A trail that was overwritten is left as it is.
local function trail(run, reason, by, owner, now, header)
  local queue_state = queue_state_of(header)
  local added = intact('RPUSH', tag .. 'j:' .. run, cjson.encode({
    t = string.format('%.0f', now), w = reason, b = by, o = owner or '', p = queue_state or '',
    s = queue_state and string.byte(header, 50) or 0, e = queue_state and string.format('%08x%08x', struct.unpack('>I4I4', header, 18)) or '',
  }))
  if added then
    redis.call('LTRIM', tag .. 'j:' .. run, '-1000', '-1')
  end
end

-- trail appends an entry to the audit trail of a run. header is the header of the run, or nil.
-- owner is the ID of the session that owned the run. An overwritten audit trail does not change.
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

-- place puts a run where those look for it that serve its queue state, by what its header and its metadata say; value is what
-- belongs to that state. A rebuild ends with it, and a heartbeat that misses a run in its set does no more.
local function place(run, state, route, priority, value, fingerprint)
  if state == '1' then
    enqueue(run, route, priority, value)
  elseif state == '3' and value ~= '0' then
    set_timer(run, route, value)
  elseif state == '4' then
    intact('ZADD', tag .. 'b:' .. route, '0', fingerprint .. ' ' .. run)
    redis.call('PUBLISH', tag .. 'hint', 'b' .. route)
  end
end

-- displace takes it out of there again.
local function displace(run, state, route, value, fingerprint)
  if state == '1' then
    intact('ZREM', tag .. 'r:' .. route, value .. run)
  elseif state == '2' then
    leave_owner(run, value)
  elseif state == '3' then
    intact('ZREM', tag .. 't', run)
  elseif state == '4' then
    intact('ZREM', tag .. 'b:' .. route, fingerprint .. ' ' .. run)
  end
end

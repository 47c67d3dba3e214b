-- place adds a run to the index that serves its queue state, from its header and metadata. value is
-- the value of that state. A rebuild ends with it, and it is all that a heartbeat does for a run
-- that is missing in its index.
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

-- displace removes a run from that index.
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

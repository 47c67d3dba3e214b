-- place adds a run to the index of its queue state. value is the value of the queue state in the
-- metadata. place is the last part of a rebuild, and a heartbeat uses it for a run that is missing
-- in its index.
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

-- displace removes a run from the index of its queue state.
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

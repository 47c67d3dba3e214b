-- overwritten contains the keys that the script has found to have a wrong type. findings lists them
-- in the order in which they were found, each as the key, a space and the type of the key.
local overwritten, findings = {}, {}

-- intact returns the reply to a command. If the key has a wrong type, it skips the command and
-- returns nil, so that an overwritten key affects only the data of this key.
local function intact(command, key, ...)
  if overwritten[key] then
    return nil
  end
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  if not string.find(reply.err, '^WRONGTYPE') then
    return redis.call(command, key, ...) -- fails a second time and ends the script
  end
  overwritten[key] = true
  findings[#findings + 1] = key .. ' ' .. redis.call('TYPE', key).ok
  return nil
end

-- notified appends the findings to an answer.
local function notified(answer)
  for _, finding in ipairs(findings) do
    answer[#answer + 1] = finding
  end
  return answer
end

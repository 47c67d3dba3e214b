-- overwritten has the keys that the script has found to be of another type than they must be.
-- findings lists them in the order of discovery, each as the key, a space and its present type.
local overwritten, findings = {}, {}

-- intact returns the reply to a command, or nil if its key has the wrong type. The command is then
-- skipped, so that one overwritten key affects only the data that it holds.
local function intact(command, key, ...)
  if overwritten[key] then
    return nil
  end
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  if not string.find(reply.err, '^WRONGTYPE') then
    return redis.call(command, key, ...) -- fails again, and ends the script
  end
  overwritten[key] = true
  findings[#findings + 1] = key .. ' ' .. redis.call('TYPE', key).ok
  return nil
end

-- told appends the findings to an answer.
local function notified(answer)
  for _, finding in ipairs(findings) do
    answer[#answer + 1] = finding
  end
  return answer
end

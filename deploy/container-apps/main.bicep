// The runner on Azure Container Apps: two replicas, one of which works. The steps 1 to 4 of docs/kubernetes.md make the
// resource group, the account, the registry, the image, and these variables. The host answers POST /report.
//
//   az deployment group create --resource-group $GROUP --template-file deploy/container-apps/main.bicep \
//     --parameters image=$IMAGE:$TAG registryName=$REGISTRY storageAccountName=$ACCOUNT reportHost=reports.example.com
//   az containerapp logs show --resource-group $GROUP --name tenure --follow
//   az containerapp exec --resource-group $GROUP --name tenure --command "tenure status"
//
// A new role can take ten minutes to take effect. If the image could not be pulled, repeat the first command.
//
// An identity made here pulls the image and holds the election: there is no key and no connection string. The one who
// deploys must be allowed to assign roles.
//
// Checked: it parses, by the grammar of tree-sitter; its fields, by those that Azure defines; `tenure run` validates
// arguments and variables. Not run: the Bicep compiler, a deployment.

@description('Where everything is put.')
param location string = resourceGroup().location

@description('The image that deploy/Dockerfile makes.')
param image string

@description('The Azure container registry in this resource group that has the image. Empty: the image is public.')
param registryName string = ''

@description('An account in this resource group. Choose LRS or ZRS: a failover to another region can be held up by a lease.')
param storageAccountName string

@description('The host that the handler reports to. It reaches no other.')
param reportHost string

@description('The election: a container and a blob in it. One for each job.')
param election string = 'jobs/report'

@description('How often a turn is to run.')
param every string = '1m'

// Built-in roles, by the names that Azure gives them.
var blobDataContributor = subscriptionResourceId(
  'Microsoft.Authorization/roleDefinitions',
  'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
)
var acrPull = subscriptionResourceId(
  'Microsoft.Authorization/roleDefinitions',
  '7f951dda-4ed3-4680-a7ca-43fe172d538d'
)

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'tenure'
  location: location
}

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: storageAccountName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' existing = {
  parent: storage
  name: 'default'
}

resource elections 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: split(election, '/')[0]
}

// On this container alone.
resource holdsElections 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(elections.id, identity.id, blobDataContributor)
  scope: elections
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataContributor
  }
}

resource registry 'Microsoft.ContainerRegistry/registries@2023-07-01' existing = if (!empty(registryName)) {
  name: empty(registryName) ? 'none' : registryName
}

resource pulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(registryName)) {
  name: guid(resourceGroup().id, registryName, identity.id, acrPull)
  scope: registry
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: acrPull
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: 'tenure'
  location: location
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: 30
  }
}

resource apps 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: 'tenure'
  location: location
  properties: {
    appLogsConfiguration: {
      destination: 'log-analytics'
      logAnalyticsConfiguration: {
        customerId: logs.properties.customerId
        sharedKey: logs.listKeys().primarySharedKey
      }
    }
  }
}

var registries = empty(registryName) ? [] : [
  {
    server: '${registryName}.azurecr.io'
    identity: identity.id
  }
]

resource tenure 'Microsoft.App/containerApps@2024-03-01' = {
  name: 'tenure'
  location: location
  // The image cannot be pulled, and no lease be acquired, before the roles are assigned.
  dependsOn: [
    holdsElections
    pulls
  ]
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    environmentId: apps.id
    configuration: {
      // Both revisions contend while one replaces the other; only one of them leads.
      activeRevisionsMode: 'Single'
      registries: registries
    }
    template: {
      // Longer than TENURE_GRACE and the release of the lease.
      terminationGracePeriodSeconds: 45
      containers: [
        {
          name: 'tenure'
          image: image
          args: [
            'run'
            '--log=json'
            '--listen=0.0.0.0:8080'
            '--handler=/handlers/report.wasm'
            '--allow-host=${reportHost}'
            '--env=REPORT_URL=https://${reportHost}/report'
          ]
          env: [
            {
              name: 'TENURE_ELECTION'
              value: election
            }
            {
              name: 'TENURE_EVERY'
              value: every
            }
            {
              name: 'TENURE_GRACE'
              value: '30s'
            }
            {
              name: 'AZURE_STORAGE_ACCOUNT'
              value: storage.name
            }
            {
              // The identity above, of all that the app may have.
              name: 'AZURE_CLIENT_ID'
              value: identity.properties.clientId
            }
          ]
          probes: [
            {
              // Started: it listens. A handler that is still being compiled restarts nothing.
              type: 'Startup'
              httpGet: {
                path: '/healthz'
                port: 8080
              }
              periodSeconds: 6
              // The most that Container Apps allows.
              failureThreshold: 10
            }
            {
              // Alive: the loop runs. An account that does not answer restarts nothing.
              type: 'Liveness'
              httpGet: {
                path: '/healthz'
                port: 8080
              }
              periodSeconds: 20
              failureThreshold: 3
            }
            {
              // Ready: the storage account answers, so that this candidate could lead.
              type: 'Readiness'
              httpGet: {
                path: '/readyz'
                port: 8080
              }
              periodSeconds: 5
              failureThreshold: 2
            }
          ]
          resources: {
            cpu: json('0.25')
            memory: '0.5Gi'
          }
        }
      ]
      scale: {
        // As many as there are to be candidates. Never 0: there would be no candidate.
        minReplicas: 2
        maxReplicas: 2
      }
    }
  }
}

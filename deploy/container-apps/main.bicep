// The runner on Azure Container Apps: two replicas, one of which works.
//
//   az deployment group create --resource-group mygroup --template-file deploy/container-apps/main.bicep \
//     --parameters image=myregistry.azurecr.io/tenure:0.1.0 storageAccountName=mystore reportHost=reports.example.com
//
// Probes of Container Apps speak HTTP or TCP, on which the runner does not listen: it has none here. What it
// has to tell is in its log; `tenure status` tells from anywhere who leads.
//
// Checked: that it parses, by the grammar of tree-sitter. Not run: the Bicep compiler, a deployment.

@description('Where everything is put.')
param location string = resourceGroup().location

@description('The image that deploy/Dockerfile makes.')
param image string

@description('An account in this resource group. Choose LRS or ZRS: a fail-over to another region can be held up by a lease.')
param storageAccountName string

@description('The host that the handler reports to. It reaches no other.')
param reportHost string

@description('The election: a container and a blob in it. One for each job.')
param election string = 'jobs/report'

@description('How often a turn is to run.')
param every string = '1m'

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: storageAccountName
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

resource tenure 'Microsoft.App/containerApps@2024-03-01' = {
  name: 'tenure'
  location: location
  properties: {
    environmentId: apps.id
    configuration: {
      // Both revisions contend while one replaces the other; only one of them leads.
      activeRevisionsMode: 'Single'
      secrets: [
        {
          name: 'connection-string'
          value: 'DefaultEndpointsProtocol=https;AccountName=${storage.name};AccountKey=${storage.listKeys().keys[0].value};EndpointSuffix=${environment().suffixes.storage}'
        }
      ]
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
              name: 'AZURE_STORAGE_CONNECTION_STRING'
              secretRef: 'connection-string'
            }
          ]
          resources: {
            cpu: json('0.25')
            memory: '0.5Gi'
          }
        }
      ]
      scale: {
        // As many as there are to be candidates. Never 0: nobody would contend.
        minReplicas: 2
        maxReplicas: 2
      }
    }
  }
}
